package config

import (
	"fmt"
	"strings"
)

// overview is the program's own --help.
func overview() string {
	var b strings.Builder
	b.WriteString("binlogcache keeps tables of MySQL or MariaDB in memory, right by the server's binlog, and answers\n" +
		"HandlerSocket and memcached clients from there.\n\nUsage: binlogcache COMMAND [flags]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.summary)
	}
	b.WriteString("\nbinlogcache COMMAND --help tells more. To see it work: binlogcache demo\n" +
		"For example: " + commands[0].example + "\n")
	return b.String()
}

// help is the command's own --help.
func (c *command) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: binlogcache %s", c.name)
	var options []*option
	if c.make != nil {
		_, options = c.make()
	}
	if len(c.actions) > 0 {
		b.WriteString(" " + strings.Join(c.actions, "|"))
	}
	if len(options) > 0 {
		b.WriteString(" [flags]")
	}
	if o := argumentOf(options); o != nil {
		b.WriteString(" [" + o.metavar + "]")
	}
	b.WriteString("\n\n")
	about := c.about
	if about == "" {
		about = "binlogcache " + c.name + ": " + c.summary + "."
	}
	b.WriteString(about + "\n")
	if len(options) > 0 {
		b.WriteString("\nFlags:\n")
		for _, o := range options {
			head := "--" + o.name
			if o.metavar != "" {
				head += " " + o.metavar
			}
			fmt.Fprintf(&b, "  %s\n", head)
			for _, line := range wrap(o.help+defaultNote(o), 90) {
				fmt.Fprintf(&b, "        %s\n", line)
			}
		}
	}
	if c.layered {
		fmt.Fprintf(&b, "\nEach flag is also a key of the YAML file (--config) and a variable, for example %sLOG_LEVEL.\n"+
			"Flags override variables, which override the file.\n", EnvPrefix)
	}
	fmt.Fprintf(&b, "\nExample:\n  %s\n", c.example)
	return b.String()
}

func defaultNote(o *option) string {
	if d := o.value.String(); d != "" && o.metavar != "" && d != "0" {
		return " Default: " + d + "."
	}
	return ""
}

// wrap breaks a text at blanks into lines of up to width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// FlagsTable is the table of the flags of serve for the documents, in Markdown.
func FlagsTable() string {
	_, options := newServe()
	var b strings.Builder
	b.WriteString("| flag and key | default | variable | what it does |\n|---|---|---|---|\n")
	for _, o := range options {
		d := o.value.String()
		if d != "" {
			d = "`" + d + "`"
		}
		help := strings.ReplaceAll(o.help, "|", "\\|")
		fmt.Fprintf(&b, "| `--%s %s` | %s | `%s` | %s |\n", o.name, strings.ReplaceAll(o.metavar, "|", "\\|"), d, o.env(), help)
	}
	return b.String()
}

package torture

import (
	"strconv"
	"strings"
)

// containsGTIDs reports whether the applied set contains the wanted one. The forms are those of gtid_executed (MySQL,
// with tags) and gtid_binlog_pos (MariaDB).
func containsGTIDs(flavor, applied, wanted string) bool {
	if flavor == "mariadb" {
		have := mariadbSequences(applied)
		for domain, sequence := range mariadbSequences(wanted) {
			if have[domain] < sequence {
				return false
			}
		}
		return true
	}
	have := mysqlIntervals(applied)
	for source, intervals := range mysqlIntervals(wanted) {
		for _, w := range intervals {
			covered := false
			for _, h := range have[source] {
				covered = covered || h[0] <= w[0] && w[1] <= h[1]
			}
			if !covered {
				return false
			}
		}
	}
	return true
}

func mariadbSequences(set string) map[string]uint64 {
	sequences := map[string]uint64{}
	for part := range strings.SplitSeq(set, ",") {
		fields := strings.Split(strings.TrimSpace(part), "-")
		if len(fields) == 3 {
			sequences[fields[0]], _ = strconv.ParseUint(fields[2], 10, 64)
		}
	}
	return sequences
}

// mysqlIntervals maps uuid or uuid:tag to its intervals.
func mysqlIntervals(set string) map[string][][2]uint64 {
	out := map[string][][2]uint64{}
	for part := range strings.SplitSeq(strings.Join(strings.Fields(set), ""), ",") {
		fields := strings.Split(part, ":")
		source := strings.ToLower(fields[0])
		for _, f := range fields[1:] {
			low, high, isRange := strings.Cut(f, "-")
			lo, err := strconv.ParseUint(low, 10, 64)
			if err != nil {
				source = strings.ToLower(fields[0]) + ":" + f
				continue
			}
			hi := lo
			if isRange {
				hi, _ = strconv.ParseUint(high, 10, 64)
			}
			out[source] = append(out[source], [2]uint64{lo, hi})
		}
	}
	return out
}

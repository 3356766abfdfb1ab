# Cache::Memcached::Fast smoke test (text protocol, everything pipelined).
use strict;
use warnings;
use Cache::Memcached::Fast;

my $server = ($ENV{MC_HOST} || '127.0.0.1') . ':' . ($ENV{MC_PORT} || 11211);
my $c = Cache::Memcached::Fast->new({servers => [$server], namespace => 'pf:', connect_timeout => 5, io_timeout => 5, utf8 => 1});
sub check { my ($ok, $what) = @_; die "FAILED: $what\n" unless $ok }

if (my $rows = $ENV{MC_ROWS}) { # keys of rows of a table, whose content the caller checks
  my $c = Cache::Memcached::Fast->new({servers => [$server], connect_timeout => 5, io_timeout => 5});
  for my $p ($rows . 't', $rows . 'b') {
    check($c->set($p . 'set', 'hello') && $c->get($p . 'set') eq 'hello' && !$c->add($p . 'set', 'x'), 'rows: set and add');
    check($c->add($p . 'add', 'a1') && $c->set($p . 'n', '10') && $c->incr($p . 'n', 5) == 15, 'rows: add and incr');
    check($c->set($p . 'gone', 'x') && $c->delete($p . 'gone') && !defined $c->get($p . 'gone'), 'rows: delete');
  }
  print "OK Cache::Memcached::Fast\n";
  exit 0;
}
check($c->set('a', 'one', 60) && $c->get('a') eq 'one' && !defined $c->get('absent'), 'set and get');
check($c->set('h', {x => [1, 2]}) && $c->get('h')->{x}[1] == 2, 'a structure (flags)');
check(defined $c->add('a', 'x') && !$c->add('a', 'x') && $c->replace('a', 'two') && !$c->replace('absent', 'x'), 'add and replace');
check($c->append('a', '!') && $c->prepend('a', '>') && $c->get('a') eq '>two!', 'append and prepend');
$c->set_multi(map { ["m$_", "v$_"] } 1 .. 300);
my $many = $c->get_multi((map { "m$_" } 1 .. 300), 'absent');
check(keys %$many == 300 && $many->{m77} eq 'v77', 'get_multi');
my $cas = $c->gets('a');
check($c->cas('a', $cas->[0], 'three') && !$c->cas('a', $cas->[0], 'four') && $c->get('a') eq 'three', 'cas');
check($c->set('n', 10) && $c->incr('n', 5) == 15 && $c->decr('n', 50) == 0 && !$c->incr('absent', 1), 'incr and decr');
check($c->touch('a', 100) && !$c->touch('absent', 1), 'touch');
$c->set('nr', 'noreply');
check($c->get('nr') eq 'noreply', 'noreply');
my $big = join '', map { chr(rand 256) } 1 .. 700_000;
check($c->set('b', $big) && length $c->get('b') == length $big, 'a large value');
check(!$c->set('huge', 'x' x 3_000_000), 'a value that is too large is refused');
check($c->set('e', 'x', 1) && $c->get('e') eq 'x', 'set with a time');
select undef, undef, undef, 2.1;
check(!defined $c->get('e'), 'expired');
check($c->delete('a') && !$c->delete('a'), 'delete');
my $versions = $c->server_versions;
check($versions->{$server} =~ /^\d+\.\d+\.\d+$/, 'version');
check($c->flush_all && !defined $c->get('nr'), 'flush_all');
print "OK Cache::Memcached::Fast\n";

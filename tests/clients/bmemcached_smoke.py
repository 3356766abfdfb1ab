"""bmemcached (python-binary-memcached) smoke test: binary protocol, with SASL where MC_USER is given."""
import os
import sys
import time

import bmemcached

addr = '%s:%s' % (os.environ.get('MC_HOST', '127.0.0.1'), os.environ.get('MC_PORT', '11211'))
c = bmemcached.Client((addr,), os.environ.get('MC_USER'), os.environ.get('MC_PASSWORD'), socket_timeout=5)
rows = os.environ.get('MC_ROWS')
if rows:  # keys of rows of a table, whose content the caller checks
    for p in (rows + 't', rows + 'b'):
        assert c.set(p + 'set', 'hello') and c.get(p + 'set') == 'hello' and not c.add(p + 'set', 'x')
        assert c.add(p + 'add', 'a1') and c.set(p + 'n', '10') and c.incr(p + 'n', 5) == 15
        assert c.set(p + 'gone', 'x') and c.delete(p + 'gone') and c.get(p + 'gone') is None
    print('OK bmemcached')
    sys.exit(0)
assert c.set('bm:a', 'one', time=60) and c.get('bm:a') == 'one' and c.get('bm:absent') is None
assert c.set('bm:i', 42) and c.get('bm:i') == 42, 'an integer keeps its type (flags)'
assert c.set('bm:d', {'x': [1, 2]}) and c.get('bm:d') == {'x': [1, 2]}
assert not c.add('bm:a', 'x') and c.add('bm:b', 'x') and c.replace('bm:a', 'two') and not c.replace('bm:absent', 'x')
many = {'bm:m%d' % i: 'v%d' % i for i in range(150)}
assert c.set_multi(many) == [] and c.get_multi(list(many) + ['bm:absent']) == many
value, cas = c.gets('bm:a')
assert value == 'two' and c.cas('bm:a', 'three', cas) and not c.cas('bm:a', 'four', cas) and c.get('bm:a') == 'three'
assert c.incr('bm:n', 5, default=10) == 10 and c.incr('bm:n', 5) == 15 and c.decr('bm:n', 50) == 0
big = os.urandom(900_000)
assert c.set('bm:big', big) and c.get('bm:big') == big
assert c.set('bm:e', 'x', time=1) and c.get('bm:e') == 'x'
time.sleep(2.3)
assert c.get('bm:e') is None
assert c.delete('bm:a') and c.get('bm:a') is None and c.delete_multi(['bm:m1', 'bm:m2'])
assert 'curr_items' in c.stats()[addr]
if os.environ.get('MC_FLUSH') == '1':
    assert c.flush_all()
c.disconnect_all()
print('OK bmemcached')

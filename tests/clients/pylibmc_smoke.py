"""pylibmc smoke test (libmemcached below it): text, then binary, with and without SASL (MC_USER, MC_PASSWORD)."""
import os
import sys
import time

import pylibmc


def missing(f, *args):
    """Tells that f finds nothing: in text it says so, in binary it raises."""
    try:
        return not f(*args)
    except pylibmc.NotFound:
        return True


server = '%s:%s' % (os.environ.get('MC_HOST', '127.0.0.1'), os.environ.get('MC_PORT', '11211'))
user = os.environ.get('MC_USER')
rows = os.environ.get('MC_ROWS')
if rows:  # keys of rows of a table, whose content the caller checks
    for binary in False, True:
        c = pylibmc.Client([server], binary=binary)
        p = rows + 'tb'[binary]
        assert c.set(p + 'set', 'hello') and c.get(p + 'set') == 'hello' and not c.add(p + 'set', 'x')
        assert c.add(p + 'add', 'a1') and c.set(p + 'n', '10') and c.incr(p + 'n', 5) == 15
        assert c.set(p + 'gone', 'x') and c.delete(p + 'gone') and c.get(p + 'gone') is None
    print('OK pylibmc')
    sys.exit(0)
for binary in [True] if user else [False, True]:
    p = 'pl%d:' % binary
    c = pylibmc.Client([server], binary=binary, username=user, password=os.environ.get('MC_PASSWORD'),
                       behaviors={'tcp_nodelay': True, 'cas': True})
    c.flush_all()
    assert c.set(p + 'a', 'one', time=60) and c.get(p + 'a') == 'one' and c.get(p + 'absent') is None
    assert c.set(p + 'i', 42) and c.get(p + 'i') == 42, 'an integer keeps its type (flags)'
    assert c.set(p + 'd', {'x': [1, 2]}) and c.get(p + 'd') == {'x': [1, 2]}
    assert not c.add(p + 'a', 'x') and c.replace(p + 'a', 'two') and missing(c.replace, p + 'absent', 'x')
    assert c.append(p + 'a', '!') and c.prepend(p + 'a', '>') and c.get(p + 'a') == '>two!'
    many = {'%sm%d' % (p, i): 'v%d' % i for i in range(150)}
    assert c.set_multi(many) == [] and c.get_multi(list(many) + [p + 'absent']) == many
    if not binary:
        value, cas = c.gets(p + 'a')
        assert value == '>two!' and c.cas(p + 'a', 'three', cas) and not c.cas(p + 'a', 'four', cas)
    assert c.set(p + 'n', 10) and c.incr(p + 'n', 5) == 15 and c.decr(p + 'n', 50) == 0
    assert c.touch(p + 'a', 100) and missing(c.touch, p + 'absent', 1)
    big = os.urandom(900_000)
    assert c.set(p + 'big', big) and c.get(p + 'big') == big
    try:
        stored = c.set(p + 'huge', os.urandom(3_000_000))
    except pylibmc.Error:
        stored = False
    assert not stored, 'a value that is too large must be refused'
    assert c.set(p + 'e', 'x', time=1) and c.get(p + 'e') == 'x'
    time.sleep(2.1)
    assert c.get(p + 'e') is None
    assert c.delete(p + 'a') and missing(c.delete, p + 'a')
    assert int(c.get_stats()[0][1]['curr_items']) > 100
print('OK pylibmc')

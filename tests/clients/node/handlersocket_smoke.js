// Smoke test with the npm package node-handlersocket. Environment: HS_HOST, HS_PORT, HS_PORT_WR, HS_SCHEMA: a schema with
// the table kv (id INT PRIMARY KEY, grp INT, name VARCHAR(50) in utf8mb4, score INT, KEY by_grp (grp)).
const hs = require('node-handlersocket');
const assert = require('assert');
const host = process.env.HS_HOST || '127.0.0.1';
const rd = Number(process.env.HS_PORT || 9998);
const wr = Number(process.env.HS_PORT_WR || 9999);

const connect = port => new Promise((ok, bad) => {
  const c = hs.connect({ host, port }, () => ok(c));
  c.on('error', bad);
});
const open = (c, ...args) => new Promise((ok, bad) =>
  c.openIndex(process.env.HS_SCHEMA || 'hs_smoke', 'kv', ...args, (e, ix) => (e ? bad(e) : ok(ix))));
const call = (ix, what, ...args) => new Promise((ok, bad) =>
  ix[what](...args, (e, v) => (e ? bad(e) : ok(v))));
const fails = (p, text) => p.then(() => assert.fail('no error'), e => assert.strictEqual(e.message, text));

(async () => {
  const w = await connect(wr);
  const r = await connect(rd);
  const iw = await open(w, 'PRIMARY', ['id', 'grp', 'name', 'score']);
  const is = await open(w, 'PRIMARY', ['score']);
  const ir = await open(r, 'PRIMARY', ['id', 'name'], ['score']);
  const ig = await open(r, 'by_grp', ['id']);
  await fails(open(r, 'PRIMARY', ['nosuch']), '2 fld');
  for (const id of [401, 402, 403]) await call(iw, 'delete', '=', [id]);
  await call(iw, 'insert', [401, 40, 'été\t😀', 5]);
  await call(iw, 'insert', [402, 40, null, 7]);
  await call(iw, 'insert', [403, 40, '', 9]);
  await fails(call(iw, 'insert', [403, 40, '', 9]), '1 121');
  assert.deepStrictEqual(await call(ir, 'find', '=', [401]), [['401', 'été\t😀']]);
  assert.deepStrictEqual(await call(ir, 'find', '=', [402]), [['402', null]]);
  assert.deepStrictEqual(await call(ir, 'find', '=', [409]), []);
  assert.deepStrictEqual(await call(ig, 'find', '=', [40], { limit: 10, offset: 1 }), [['402'], ['403']]);
  assert.deepStrictEqual(await call(ir, 'find', '>=', [401], { limit: 2, filters: [hs.filter('score', '>', 5)] }),
    [['402', null], ['403', '']]);
  assert.deepStrictEqual(await call(ir, 'find', '=', [hs.in(403, 499, 401)], { limit: 10 }),
    [['403', ''], ['401', 'été\t😀']]);
  assert.strictEqual(await call(iw, 'update', '=', [401], [401, 40, 'new', 6]), 1);
  assert.deepStrictEqual(await call(iw, 'updateAndGet', '=', [401], [401, 40, 'newer', 8]), [['401', '40', 'new', '6']]);
  assert.strictEqual(await call(is, 'increment', '=', [401], [4]), 1);
  assert.deepStrictEqual(await call(is, 'find', '=', [401]), [['12']]);
  await fails(call(ir, 'delete', '=', [401]), '2 readonly');
  assert.strictEqual(await call(iw, 'delete', '=', [402]), 1);
  assert.strictEqual(await call(iw, 'delete', '=', [402]), 0);
  w.close();
  r.close();
  console.log('OK');
  process.exit(0);
})().catch(e => { console.error(e); process.exit(1); });

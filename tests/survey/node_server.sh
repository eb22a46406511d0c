#!/bin/bash
# An HTTP server in node, with workers and a client in the same program.
# needs: node
# limit: 240
# setup
cat > server.js <<'END'
const http = require('http'), zlib = require('zlib'), crypto = require('crypto');
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (!isMainThread) {
  parentPort.on('message', n => { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; parentPort.postMessage(s); });
} else {
  const server = http.createServer((req, res) => {
    const w = new Worker(__filename);
    w.once('message', s => { res.end(zlib.gzipSync(JSON.stringify({ url: req.url, s }))); w.terminate(); });
    w.postMessage(200000);
  });
  server.listen(0, '127.0.0.1', async () => {
    const port = server.address().port;
    for (let i = 0; i < 4; i++) {
      const body = await new Promise(done => http.get({ port, path: '/' + i }, r => {
        const parts = []; r.on('data', d => parts.push(d)); r.on('end', () => done(Buffer.concat(parts))); }));
      console.log(zlib.gunzipSync(body).toString(), crypto.createHash('sha256').update(body.subarray(10)).digest('hex').slice(0, 8));
    }
    server.close(); process.exit(3);
  });
}
END
# record
node server.js
echo "status $?"
# check
grep -q '^status 3$' "$OUT"

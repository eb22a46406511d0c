#!/bin/bash
# node: worker threads with code that the compiler makes while they run, and shared memory between them.
# needs: node
# setup
cat > script.js <<'SCRIPT'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
function work(shared, number) {
  let sum = 0;
  for (let k = 0; k < 5000000; k++) {
    sum += k * k % 7;
    if (k % 500000 === 0) Atomics.store(shared, Atomics.add(shared, 0, 1) + 1, number);
  }
  return sum;
}
if (isMainThread) {
  const shared = new Int32Array(new SharedArrayBuffer(4 * 100));
  let left = 3;
  for (let number = 1; number <= 3; number++) {
    const worker = new Worker(__filename, { workerData: { shared, number } });
    worker.on('message', (sum) => {
      console.log(number, sum);
      if (--left === 0) console.log(Array.from(shared).join(' '), 'finished');
    });
  }
  console.log(0, work(shared, 4));
} else {
  parentPort.postMessage(work(workerData.shared, workerData.number));
}
SCRIPT
# record
exec node script.js
# check
grep -q finished "$OUT"

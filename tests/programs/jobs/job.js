// SPDX-License-Identifier: MIT
// Objects, JSON, zlib, crypto, buffers and worker threads.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto');
function job(seed) {
  const number = () => seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  const map = new Map(), rows = [];
  for (let i = 0; i < 60000; i++) {
    const key = 'k' + number() % 9000;
    map.set(key, (map.get(key) || 0) + 1);
    rows.push({ id: i, key, tags: [number() % 7, number() % 11], text: 'v'.repeat(number() % 50) });
  }
  const text = JSON.stringify(rows), back = JSON.parse(text);
  const packed = zlib.deflateSync(text), unpacked = zlib.inflateSync(packed).toString();
  const buffers = [];
  for (let i = 1; i <= 300; i++) buffers.push(Buffer.alloc(i * 1000, i & 255));
  const hash = crypto.createHash('sha256').update(text).update(Buffer.concat(buffers)).digest('hex');
  back.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : a.id - b.id);
  return [map.size, text.length, unpacked === text, hash, back[0].id, back[59999].id].join(' ');
}
if (!isMainThread) parentPort.postMessage(job(workerData));
else {
  const answers = [job(1)];
  let running = 4;
  for (let i = 0; i < 4; i++) {
    const worker = new Worker(__filename, { workerData: i + 2 });
    worker.on('message', text => answers[i + 1] = text);
    worker.on('exit', () => { if (--running === 0) console.log(answers.join('\n')); });
  }
}

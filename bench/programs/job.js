// SPDX-License-Identifier: MIT
// A Node job of the benchmark suite. V8 has its own heap for objects; buffers, parsers and the rest of the process use malloc.
'use strict';
const zlib = require('zlib');
const crypto = require('crypto');

let seed = 42;
function random(below) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return seed % below;
}

function buffers(count) {
  const kept = [];
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const buffer = Buffer.allocUnsafeSlow(4096 + random(32768));
    buffer[0] = i & 255;
    sum += buffer.length;
    kept[random(2000)] = buffer;
  }
  return sum;
}

function packAndHash(rounds) {
  const text = Buffer.from(JSON.stringify(Array.from({ length: 20000 }, (_, i) => ({ id: i, name: 'n' + random(1000) }))));
  let length = 0;
  for (let i = 0; i < rounds; i++) {
    const packed = zlib.deflateSync(text, { level: 1 });
    length += zlib.inflateSync(packed).length + crypto.createHash('sha256').update(packed).digest().length;
  }
  return length;
}

console.log(buffers(100000), packAndHash(20));
const rest = process.env.HAKMEM_BENCH_REST;
if (rest) {
  require('fs').writeFileSync(rest, '');
  setTimeout(() => {}, 2200);
}

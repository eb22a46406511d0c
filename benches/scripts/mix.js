// A mix of what Node programs do: JSON, regular expressions, maps, typed arrays, promises, timers, files.
// usage: node mix.js ROUNDS FOLDER      prints one line for each part, the same in every run
"use strict";
const fs = require("fs");
const path = require("path");
const crypto = require("crypto");
const [rounds, folder] = [Number(process.argv[2]), process.argv[3]];

function* chance(seed) {
  for (;;) {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    yield seed >>> 8;
  }
}

function documents() {
  const numbers = chance(3);
  const rows = Array.from({ length: 4000 }, (_, id) => ({ id, size: numbers.next().value, tags: [`t${id % 50}`, "x"] }));
  return JSON.parse(JSON.stringify(rows)).reduce((sum, row) => sum + row.size, 0);
}

function words() {
  const text = Array.from({ length: 6000 }, (_, i) => `word${(i * 7) % 500}@host${i % 9}.net 2${100 + (i % 900)}-01-02`).join(" ");
  const counted = new Map();
  for (const [, name, host] of text.matchAll(/(\w+)@(\w+)\.net/g)) counted.set(name + host, (counted.get(name + host) ?? 0) + 1);
  return [counted.size, text.replace(/(\d{4})-(\d\d)-(\d\d)/g, "$3.$2.$1").length].join(" ");
}

function numbers() {
  const values = Float64Array.from({ length: 100000 }, (_, i) => Math.sin(i * 12.9898) * 43758.5453 % 1);
  values.sort();
  return values[50000].toFixed(6) + " " + crypto.createHash("sha256").update(Buffer.from(values.buffer)).digest("hex").slice(0, 12);
}

async function files() {
  let total = 0;
  for (let i = 0; i < 20; i++) {
    const file = path.join(folder, `file-${i}`);
    await fs.promises.writeFile(file, `line ${i}\n`.repeat(500));
    total += (await fs.promises.readFile(file, "utf8")).length;
    await new Promise((resolve) => setImmediate(resolve));
    fs.unlinkSync(file);
  }
  return total;
}

(async () => {
  for (const part of [documents, words, numbers, files]) {
    const results = new Set();
    for (let i = 0; i < rounds; i++) results.add(await part());
    if (results.size !== 1) throw new Error(`${part.name} gave ${[...results]}`);
    console.log(part.name, [...results][0]);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

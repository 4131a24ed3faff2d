// Writes json_stringify.json: what JavaScript makes of numbers, strings and nested values.
//
//     node tests/vectors/json_stringify.mjs
//
// Doubles are given by their 64 bits, because JSON itself cannot say -0, NaN or Infinity.

import { writeFileSync } from "node:fs";

const view = new DataView(new ArrayBuffer(8));
const bits = (value) => {
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
};

const borders = [
  0, -0, 1, -1, 0.1, 0.1 + 0.2, 100, 1e15, 1e16, 1e17, 1e20, 999999999999999900000, 1e21, -1e21,
  1.5e21, 1e22, 1e23, 123456789012345680000, 1e-5, 1e-6, 1.5e-6, 1e-7, 1.5e-7, -1e-7, 0.000001234,
  2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 53 + 2, -(2 ** 53), 2 ** 63, 2 ** 64, 5e-324,
  2.2250738585072014e-308, 1.7976931348623157e308, 4.35, 1 / 3, NaN, Infinity, -Infinity,
];
for (let power = -25; power <= 25; power++) borders.push(Number(`1e${power}`), Number(`12345e${power}`));
for (let power = -1074; power < 1024; power += 27) borders.push(2 ** power);

// Knuth's 64-bit generator: the same "random" doubles on every run.
let state = 1n;
const random = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  view.setBigUint64(0, state);
  return view.getFloat64(0);
};
const doubles = [...borders, ...Array.from({ length: 300 }, random)];

const controls = Array.from({ length: 0x20 }, (_, code) => String.fromCharCode(code)).join("");
const strings = [
  "", "plain", '"quoted" \\ and / slashed', controls, "\x7f\x80\x85\x9f", "\u2028\u2029", "\ufeff\ufffe\uffff",
  "naïve 中文", "😀", "👩‍👩‍👧", "\ud83d", "\ude00", "a\ud83db", "\ude00\ud83d", "\ud83d" + "\ude00", "\ud83d😀\ude00",
];

const values = [
  ...strings, null, true, false, 0, 1.5, [], {}, [[]], [{}], { a: {} }, [1, "two", null, false, [3, [4]]],
  { text: "中", nested: { list: [1, 2.5, { deep: "😀" }], empty: "" } },
  { "key \u2028 with \n all": 1, "": 2, "\ud83d": 3, "a\"b": [] },
];

writeFileSync(
  new URL("json_stringify.json", import.meta.url),
  JSON.stringify(
    {
      node: process.version,
      doubles: doubles.map((value) => ({ bits: bits(value), text: JSON.stringify(value) })),
      lengths: strings.map((text) => ({ text, length: text.length })),
      cases: values.map((value) => ({ value, text: JSON.stringify(value) })),
    },
    null,
    1,
  ) + "\n",
);

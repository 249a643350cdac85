import assert from "node:assert/strict";
import test from "node:test";

import {
  readDelimited,
  writeDelimited,
} from "../../../../services/dashboard/assets/delimited-text.js";

const CELLS = [
  "",
  "Ada",
  "two\nlines",
  'a "quote"',
  '"',
  "tab\there",
  "\r\n",
  " Åse ",
  "=1+1",
  '"Weird Al" Yankovic',
];

test("a quoted cell may have line breaks and separators", () => {
  const table = 'Ada\t"Norway\nsince 1990"\r\nBob\t"says ""hi"""\r\n';
  assert.deepEqual(readDelimited(table), [
    ["Ada", "Norway\nsince 1990"],
    ["Bob", 'says "hi"'],
  ]);
  assert.deepEqual(readDelimited('"a,b",c', ","), [["a,b", "c"]]);
});

test("a quote in a name, and one that is never closed, are letters", () => {
  assert.deepEqual(readDelimited('"Weird Al" Yankovic\tUSA\n12" Disco\n"Open\nNext'), [
    ['"Weird Al" Yankovic', "USA"],
    ['12" Disco'],
    ['"Open'],
    ["Next"],
  ]);
});

test("empty lines and cells stay", () => {
  assert.deepEqual(readDelimited(""), [[""]]);
  assert.deepEqual(readDelimited("a\t\n\nb"), [["a", ""], [""], ["b"]]);
});

test("what is written is read", () => {
  const quoted = (cell) => (/["\t\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  for (const one of CELLS)
    for (const other of CELLS) {
      const rows = [
        [one, other],
        [other, one, "end"],
      ];
      assert.deepEqual(
        readDelimited(rows.map((row) => row.map(quoted).join("\t")).join("\r\n")),
        rows,
      );
    }
});

test("a title is one cell, and no formula, wherever the file is opened", () => {
  const titles = [
    "=1+1",
    "Ada;=1+1",
    'Ada, "A"',
    ",-1",
    "@me",
    "Ada\tB",
    "two\nlines",
    "\t=1",
    "+49",
    "Ada; Bob",
  ];
  for (const decimal of [".", ","]) {
    const text = writeDelimited(
      titles.map((title) => [1, title, 0.5]),
      decimal,
    );
    const separator = decimal === "," ? ";" : ",";
    const rows = readDelimited(text.slice(1), separator);
    assert.deepEqual(
      rows.map((row) => row.length),
      titles.map(() => 3),
    );
    assert.deepEqual(rows[0], ["1", "'=1+1", `0${decimal}5`]);
    assert.deepEqual(rows[1][1], "Ada;'=1+1");
    assert.deepEqual(rows[5][1], "Ada B");
    for (const cell of text.slice(1).split(/[;,\t\r\n]/)) assert.doesNotMatch(cell, /^"?[=+\-@]/);
  }
});

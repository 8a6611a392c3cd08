// Scripts spell figures as reports do: both are held to one table.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { datatype, percent, size, three, time } from "../../html/spelling.js";

const table = JSON.parse(
  readFileSync(new URL("../../../analyze/src/spelling.json", import.meta.url), "utf8"),
);
const spells = { three, time, size, percent, datatype };

for (const [name, rows] of Object.entries(table)) {
  test(`${name} of the table`, () => {
    assert.ok(rows.length > 2);
    for (const [value, text] of rows) assert.equal(spells[name](value), text);
  });
}

test("what is not known is a dash", () => {
  for (const value of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY])
    assert.equal(three(value), "-");
});

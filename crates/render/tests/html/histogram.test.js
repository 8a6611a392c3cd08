import assert from "node:assert/strict";
import { test } from "node:test";
import { buckets_of, edge } from "../../html/report/histogram.js";

test("a doubling has as many buckets as the histogram says, and none is between them", () => {
  for (const per_octave of [64, 32, 8]) {
    for (let number = 2 * per_octave; number < 20 * per_octave; number++) {
      assert.ok(edge(number + 1, per_octave) > edge(number, per_octave));
      const doubled = edge(number + per_octave, per_octave) / edge(number, per_octave);
      assert.ok(Math.abs(doubled - 2) < 1e-12, `${number}: ${doubled}`);
    }
  }
});

test("empty buckets are skipped, and every call is counted once, however wide buckets are", () => {
  // 3 calls, then 10 empty buckets, then 2 and 5.
  const histogram = { first: 640, per_octave: 64, counts: [3, -10, 2, 5] };
  const buckets = buckets_of(histogram, 1);
  assert.deepEqual(
    buckets.map(({ count, upto }) => [count, upto]),
    [
      [3, 3],
      [2, 5],
      [5, 10],
    ],
  );
  assert.equal(buckets[0].low, edge(640, 64));
  assert.equal(buckets[1].low, edge(651, 64));
  for (const wider of [2, 8, 64]) {
    const wide = buckets_of(histogram, wider);
    assert.equal(wide.at(-1).upto, 10);
    assert.ok(wide[0].low <= buckets[0].low && wide.at(-1).high >= buckets[2].high);
  }
});

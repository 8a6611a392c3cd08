import assert from "node:assert/strict";
import { test } from "node:test";
import { between, energy_in, has, mean_in, sum_in } from "../../html/report/selection.js";

test("bits say in which buckets a row has calls", () => {
  // Buckets 0, 5 and 70.
  const bits = (1n | (1n << 5n) | (1n << 70n)).toString(16);
  const seen = Array.from({ length: 80 }, (_, at) => has(bits, [at, at + 1]));
  assert.deepEqual(
    seen.flatMap((is, at) => (is ? [at] : [])),
    [0, 5, 70],
  );
  assert.ok(has(bits, [1, 6]));
  assert.ok(!has(bits, [1, 5]));
  assert.ok(!has(bits, [6, 70]));
  // A row without calls has no digit, and no bucket after the last digit has calls.
  assert.ok(!has("", [0, 80]));
  assert.ok(!has("1", [1, 512]));
});

test("a span has both of its ends, in whichever direction it is drawn", () => {
  assert.deepEqual(between(3, 7), [3, 8]);
  assert.deepEqual(between(7, 3), [3, 8]);
  assert.deepEqual(between(5, 5), [5, 6]);
});

test("sums and means are of the span, and of what is known", () => {
  assert.equal(sum_in([1, 2, 4, 8], [1, 3]), 6);
  assert.equal(mean_in([1, null, 3, 100], [0, 3]), 2);
  assert.equal(mean_in([0, 0], [0, 2]), 0);
  assert.equal(mean_in([1, null, null], [1, 3]), null);
});

test("energy is power by time, over all GPUs, and says what part was sampled", () => {
  // 300 W of 8 GPUs for two of four half seconds.
  const power = [null, 250, 350, null];
  assert.deepEqual(energy_in(power, 8, 5e5, [0, 4]), { joules: 2400, part: 0.5 });
  assert.deepEqual(energy_in(power, 8, 5e5, [2, 3]), { joules: 1400, part: 1 });
  assert.equal(energy_in(power, 8, 5e5, [3, 4]), null);
  assert.equal(energy_in([], 8, 5e5, [0, 4]), null);
  assert.equal(energy_in(power, undefined, 5e5, [0, 4]), null);
});

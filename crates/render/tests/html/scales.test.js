import assert from "node:assert/strict";
import { test } from "node:test";
import { binary_ticks, decimal_ticks, even_ticks, log_scale, share_end, widened } from "../../html/scales.js";

const near = (a, b) => assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test("even ticks are round, within the span, and no more than wanted", () => {
  assert.deepEqual(even_ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(even_ticks(3.2, 4.1, 4), [3.5, 4]);
  for (const [low, high, most] of [
    [0, 24.3, 7],
    [1e-3, 9e-3, 3],
    [-5, 5, 4],
    [123456, 123999, 6],
  ]) {
    const ticks = even_ticks(low, high, most);
    assert.ok(ticks.length >= 1 && ticks.length <= most + 1, `${ticks}`);
    for (const tick of ticks) assert.ok(tick >= low && tick <= high * (1 + 1e-12));
    for (let i = 2; i < ticks.length; i++) near(ticks[i] - ticks[i - 1], ticks[1] - ticks[0]);
  }
});

test("a logarithmic scale has equal ways for equal factors, and back", () => {
  const x = log_scale([1, 1000], [10, 310]);
  near(x(1), 10);
  near(x(10), 110);
  near(x(1000), 310);
  for (const at of [10, 77, 200, 310]) near(x(x.invert(at)), at);
});

test("a single value has room around it", () => {
  const [low, high] = widened(64, 64, 16);
  assert.ok(low < 64 && high > 64);
  assert.ok(high / low >= 16);
  near(Math.sqrt(low * high), 64);
});

test("logarithmic ticks are powers where decades are many, and even where they are few", () => {
  assert.deepEqual(decimal_ticks([1, 1e6], 7), [1, 10, 100, 1000, 10000, 100000, 1000000]);
  assert.deepEqual(decimal_ticks([10, 90], 4), [20, 40, 60, 80]);
  const many = decimal_ticks([1e-3, 1e9], 5);
  assert.ok(many.length <= 6, `${many}`);
  assert.deepEqual(binary_ticks([1, 16], 10), [1, 2, 4, 8, 16]);
  assert.deepEqual(binary_ticks([1, 1 << 20], 5), [1, 1 << 5, 1 << 10, 1 << 15, 1 << 20]);
});

test("the scale of shares ends at a round share, and a thousandth does not fill it", () => {
  assert.equal(share_end([0.00002, null]), 0.1);
  assert.equal(share_end([0.11]), 0.2);
  assert.equal(share_end([0.2, 0.51]), 1);
  assert.equal(share_end([null]), 0.1);
  // Two calls at once take more than the time there is.
  assert.equal(share_end([1.3]), 1.3);
});

// The report that the page carries, and what its JSON does not have.

const inside = (name) => JSON.parse(document.getElementById(name).textContent);

export const report = inside("report");
export const { active, histograms, short_ids } = inside("more");

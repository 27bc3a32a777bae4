// The figures, and what of them is looked at: the chosen groups (none: all) and the stretch of time.
const data = JSON.parse(byId("data").textContent);
const ALL = -1;
const text = (position) => (position < 0 ? "" : data.texts[position]);
const chosen = new Set();
let stretch = null; // [from, to] in ms, or null for the whole.

/** A table of columns as rows. */
function rowsOf(table) {
  const names = Object.keys(table).filter((name) => Array.isArray(table[name]) && name !== "limits");
  return table[names[0]].map((_, row) => Object.fromEntries(names.map((name) => [name, table[name][row]])));
}
const tables = Object.fromEntries(
  ["groups", "lag", "noisy", "causes", "pace", "rebalances", "storms", "sessions", "lengths", "churn", "letters"]
    .map((name) => [name, rowsOf(data[name])]),
);

const ofChosen = (rows) => (chosen.size ? rows.filter((row) => chosen.has(row.group_id)) : rows);
/** Of tables that have rows for all groups together: those, or the chosen groups' own. */
const totalled = (rows) => rows.filter((row) => (chosen.size ? chosen.has(row.group_id) : row.group_id === ALL));
const groupsShown = () => tables.groups.filter((row) => !chosen.size || chosen.has(row.group));

/** Rows added up by a key: of each key an object with `key` and the sums. */
function added(rows, keyOf, names) {
  const sums = new Map();
  for (const row of rows) {
    const key = keyOf(row);
    if (!sums.has(key)) sums.set(key, { key, ...Object.fromEntries(names.map((name) => [name, 0])) });
    for (const name of names) sums.get(key)[name] += row[name] ?? 0;
  }
  return [...sums.values()];
}

function choose(groups) {
  chosen.clear();
  groups.forEach((group) => chosen.add(group));
  draw();
}
function toggle(group) {
  if (!chosen.delete(group)) chosen.add(group);
  draw();
}
function wholeSpan() {
  const [from, to] = data.span;
  const margin = Math.max((to - from) * 0.015, 15e3);
  return [from - margin, to + margin];
}

// Colours have one meaning for causes, wherever they are shown. The variables are the style sheet's, per scheme.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const CAUSE_COLOURS = {
  member_joined: "c1", session_expired: "c2", leader_rejoined: "c3", member_metadata_changed: "c4",
  sync_timeout: "c5", member_left: "c6", partition_counts_changed: "c7",
};
const causeColour = (cause) => colour(CAUSE_COLOURS[cause] ?? "c8");
const lineColour = (index) => colour(`c${(index % 8) + 1}`);

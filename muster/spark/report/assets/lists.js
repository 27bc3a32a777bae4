// What reads better as a list: headline figures, groups, causes, clients, committers, dead letters.
const LIST_MAX = 8, TABLE_MAX = 10;
let tableOrder = { name: null, descending: true };
let wholeTable = false;

function drawTiles() {
  const { headline } = data;
  const rows = groupsShown();
  const sum = (name) => (chosen.size ? rows.reduce((total, row) => total + (row[name] ?? 0), 0) : headline[name]);
  const most = (name) => {
    if (!chosen.size) return headline.worst[name];
    const row = rows.filter((each) => each[name] != null).sort((a, b) => b[name] - a[name])[0];
    return row && { value: row[name], group: row.group };
  };
  const where = (worst) => (worst ? (worst.topic === undefined ? `a partition of ${text(worst.group)}` : `${text(worst.topic)}-${worst.partition} of ${text(worst.group)}, ${moment(worst.at)}`) : "the table lag is empty");
  const records = most("lag_records"), seconds = most("lag_seconds");
  const tile = (name, figure, words) => element("div", { class: "tile" }, element("h3", {}, name), element("strong", {}, figure), element("p", {}, words));
  const rebalances = sum("rebalances");
  byId("tiles").replaceChildren(
    tile("Groups", counted(chosen.size || data.group_count), chosen.size ? `chosen of ${counted(data.group_count)}` : "with any figures"),
    tile("Rebalances", counted(rebalances), rebalances ? averageLength(sum("lost_ms"), rebalances, sum("unknown_lengths")) : "none"),
    tile("Time lost to them", lengthOf(sum("lost_ms"), rebalances, sum("unknown_lengths")), "of all these groups together"),
    tile("Worst lag, in records", records ? counted(records.value) : "–", where(records)),
    tile("Worst lag, in time", seconds ? duration(seconds.value * 1000) : "–", where(seconds)),
    tile("Dead letters", counted(headline.dead_letters), chosen.size ? "of all groups: they belong to none" : headline.dead_letters ? "records no job could use" : "every record was understood"),
  );
}

const COLUMNS = [
  ["group", "group", (row) => text(row.group)],
  ["lost_ms", "time lost", (row) => duration(row.lost_ms)],
  ["rebalances", "rebalances", (row) => counted(row.rebalances)],
  ["storms", "storms", (row) => counted(row.storms)],
  ["lag_records", "worst lag", (row) => counted(row.lag_records)],
  ["lag_seconds", "worst delay", (row) => duration(row.lag_seconds * 1000)],
  ["churn", "comings and goings", (row) => counted(row.churn)],
  ["per_second", "commits/s, peak", (row) => counted(row.per_second)],
];
function drawGroups() {
  const rows = [...tables.groups];
  if (!rows.length) return show("groups", "No groups: the tables are empty, or have none in this time.");
  show("groups", null);
  const { name, descending } = tableOrder;
  const valueOf = (row) => (name === "group" ? text(row.group) : row[name] ?? -1);
  if (name) rows.sort((a, b) => (valueOf(a) < valueOf(b) ? -1 : valueOf(a) > valueOf(b) ? 1 : 0) * (descending ? -1 : 1));
  const peaks = Object.fromEntries(COLUMNS.slice(1).map(([column]) => [column, Math.max(...rows.map((row) => row[column] ?? 0))]));
  const bar = (share) => `linear-gradient(to left, var(--shade) ${share * 100}%, transparent 0)`;
  const head = element("tr", {}, ...COLUMNS.map(([column, words]) => element("th",
    { scope: "col", ...(column === name ? { "aria-sort": descending ? "descending" : "ascending" } : {}) },
    element("button", { type: "button", onclick: () => { tableOrder = { name: column, descending: column === name ? !descending : column !== "group" }; drawGroups(); } }, words))));
  const body = rows.slice(0, wholeTable ? rows.length : TABLE_MAX).map((row) => element("tr", chosen.has(row.group) ? { class: "chosen" } : {},
    element("td", {}, element("button", { type: "button", title: text(row.group), "aria-pressed": String(chosen.has(row.group)), onclick: () => toggle(row.group) }, text(row.group))),
    ...COLUMNS.slice(1).map(([column, , shown]) => (row[column] ? element("td", { style: { backgroundImage: bar(row[column] / peaks[column]) } }, shown(row)) : element("td", { class: "none" }, row[column] == null && (column.startsWith("lag") || row.rebalances && column === "lost_ms") ? "–" : "0")))));
  byId("groups-table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  const button = byId("groups-more");
  button.hidden = rows.length <= TABLE_MAX;
  button.textContent = wholeTable ? "Fewer" : `All ${counted(rows.length)}`;
}

/** Items of a list: {name, swatch, figure, meters: [[share, shade], ...] per line, more}. */
function drawList(section, items) {
  show(section, null);
  byId(`${section}-list`).replaceChildren(...items.map((item) => element("div", { class: "item" },
    element("div", { class: "item-head" },
      element("div", { class: "item-name" }, ...(item.swatch ? [element("i", { class: "swatch", style: { background: item.swatch } })] : []), item.name),
      element("div", { class: "item-figure" }, item.figure)),
    ...item.meters.map((parts, line) => element("div", { class: line ? "meter thin" : "meter" },
      ...parts.filter(([share]) => share > 0).map(([share, shade]) => element("i", { style: { width: `${share * 100}%`, background: shade } })))),
    element("div", { class: "item-more" }, item.more))));
}

function drawCauses() {
  const rows = totalled(tables.causes);
  if (!rows.length) return show("causes", data.headline.rebalances ? "The chosen groups had no rebalance." : "No rebalances: the table has none.");
  const longest = new Map();
  for (const row of rows) longest.set(row.cause, Math.max(longest.get(row.cause) ?? 0, row.longest_ms));
  const causes = added(rows, (row) => row.cause, ["rows", "unknown", "duration_ms"]).sort((a, b) => b.duration_ms - a.duration_ms);
  const mostMs = Math.max(...causes.map((each) => each.duration_ms), 1), mostRows = Math.max(...causes.map((each) => each.rows));
  drawList("causes", causes.map((each) => {
    const shade = causeColour(text(each.key));
    return {
      name: humanly(text(each.key)), swatch: shade, figure: lengthOf(each.duration_ms, each.rows, each.unknown),
      meters: [[[each.duration_ms / mostMs, shade]], [[each.rows / mostRows, colour("soft")]]],
      more: [
        plural(each.rows, "rebalance"), averageLength(each.duration_ms, each.rows, each.unknown),
        each.unknown < each.rows ? `${duration(longest.get(each.key))} the longest` : "",
      ].filter(Boolean).join(", "),
    };
  }));
}

function drawChurn() {
  const rows = ofChosen(tables.churn).sort((a, b) => b.total - a.total);
  if (!rows.length) return show("churn", `No comings and goings of members in ${someGroup()}.`);
  const most = rows[0].total, shades = [colour("c1"), colour("c6"), colour("c2")];
  drawList("churn", rows.slice(0, LIST_MAX).map((row) => ({
    name: text(row.client_id) || "without client id", figure: counted(row.total),
    meters: [[[row.joined / most, shades[0]], [row.left / most, shades[1]], [row.expired / most, shades[2]]]],
    more: `${text(row.group_id)}${row.client_host < 0 ? "" : `, ${text(row.client_host)}`}: ${counted(row.joined)} joined, ${counted(row.left)} left, ${counted(row.expired)} expired`,
  })));
  legend("churn", [["joined", shades[0]], ["left", shades[1]], ["expired", shades[2]]]);
  note("churn", [
    rows.length > LIST_MAX || !chosen.size ? `The ${Math.min(rows.length, LIST_MAX)} foremost.` : "",
    data.churn.is_cut ? "There are more clients than could be counted; these figures may be too small." : "",
  ].join(" ").trim());
}

function drawNoisy() {
  const own = groupsShown().filter((row) => row.per_second).map((row) => ({ ...row, group_id: row.group }));
  const rows = (chosen.size ? own : tables.noisy).sort((a, b) => b.per_second - a.per_second).slice(0, LIST_MAX);
  if (!rows.length) return show("noisy", `No commits of ${someGroup()}.`);
  drawList("noisy", rows.map((row) => ({
    name: text(row.group_id), figure: `${counted(row.per_second)} /s`,
    meters: [[[row.per_second / rows[0].per_second, row.noisy_minutes ? colour("c2") : colour("c1")]]],
    more: `${plural(row.commits, "commit")} in all${row.noisy_minutes ? `, ${plural(row.noisy_minutes, "noisy minute")}` : ""}`,
  })));
}

function drawLetters() {
  const rows = tables.letters;
  if (!rows.length) return show("letters", "No dead letters: the jobs could use every record.");
  drawList("letters", rows.slice(0, LIST_MAX).map((row) => ({
    name: text(row.reason), figure: counted(row.rows), meters: [[[row.rows / rows[0].rows, colour("c5")]]],
    more: `job ${text(row.job)}, from ${text(row.source_topic)}, last ${moment(row.seen_at)} UTC`,
  })));
  note("letters", [
    rows.length > LIST_MAX ? `The ${LIST_MAX} most frequent reasons of ${data.letters.reason.length}${data.letters.reason.length >= 25 ? " or more" : ""}.` : "",
    chosen.size ? "Dead letters belong to no group: these are all." : "",
  ].join(" ").trim());
}

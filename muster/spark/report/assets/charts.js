// The charts: each asks the state for its rows, and draws them or says in a sentence that there are none.
const LINES_MAX = 8, TRACKS_MAX = 12, CLIENTS_MAX = 14;
const someGroup = () => (chosen.size ? "the chosen groups" : "any group");
const more = (shown, all, noun) => (all > shown ? `Shown: ${plural(shown, noun)} of ${counted(all)}. Choose groups to see others.` : "");

/** The groups with the largest `measure`, as text positions, and how many have any. */
function foremost(rows, measure, most) {
  const peaks = new Map();
  for (const row of rows) peaks.set(row.group_id, Math.max(peaks.get(row.group_id) ?? 0, measure(row) ?? 0));
  const order = [...peaks].filter(([, peak]) => peak > 0).sort((a, b) => b[1] - a[1]).map(([group]) => group);
  return { groups: order.slice(0, most), all: order.length };
}
/** Values of one group at every step; 0 where there is no row, for then nothing was behind, or committed. */
function dense(table, rows, group, name, factor = 1) {
  const count = Math.round((data[table].end - data[table].begin) / data[table].width);
  const values = new Array(count).fill(0);
  for (const row of rows) if (row.group_id === group) values[row.step] = row[name] == null ? null : row[name] * factor;
  return values;
}
const stepTimes = (table) => {
  const { begin, end, width } = data[table];
  return Array.from({ length: Math.round((end - begin) / width) }, (_, step) => begin + step * width);
};

function drawLag() {
  const rows = ofChosen(tables.lag);
  if (!data.lag.group_id.length && !tables.groups.length) return show("lag", "The table lag is empty.");
  const { groups, all } = foremost(rows, (row) => Math.max(row.lag_records ?? 0, (row.lag_seconds ?? 0) * 10), LINES_MAX);
  if (!groups.length) return show("lag", `No lag: as far as the table shows, ${chosen.size ? "the chosen groups are" : "every group is"} at the ends of its partitions.`.replace("are at the ends of its", "are at the ends of their"));
  const times = stepTimes("lag");
  const traces = groups.flatMap((group, index) => [["lag_records", "y", 1], ["lag_seconds", "y2", 1000]].map(([name, yaxis, factor]) => {
    const values = dense("lag", rows, group, name, factor);
    return {
      type: "scatter", mode: "lines", x: times, y: values, yaxis, xaxis: "x",
      line: { color: lineColour(index), width: 2, shape: "hv" }, connectgaps: false,
      text: values.map((value) => `${safe(text(group))}: ${name === "lag_records" ? plural(value, "record") : duration(value)}`),
      hovertemplate: "%{text}<extra></extra>",
    };
  }));
  const most = Math.max(...traces.filter((trace) => trace.yaxis === "y2").flatMap((trace) => trace.y.map((value) => value ?? 0)), 1000);
  show("lag", null, (place) => timeChart(place, traces, layoutOf(430, {
    hovermode: "x unified", margin: { l: 62, r: 10, t: 24, b: 34 },
    xaxis: timeAxis({ anchor: "y2" }),
    yaxis: valueAxis({ domain: [0.56, 1], tickformat: "~s", nticks: 5 }),
    yaxis2: valueAxis({ domain: [0, 0.43], ...durationTicks(most) }),
    annotations: [caption("records behind", { y: 1, yref: "paper" }), caption("time behind", { y: 0.43, yref: "paper" })],
  })));
  legend("lag", groups.map((group, index) => [text(group), lineColour(index), () => toggle(group)]));
  const step = duration(data.lag.width);
  note("lag", [`Steps of ${step}, the worst minute of each.`, all > groups.length ? `Shown: the ${groups.length} groups that were furthest behind, of ${counted(all)}.` : ""].join(" "));
}

function drawTimeline() {
  const rows = ofChosen(tables.rebalances);
  if (!rows.length) return show("timeline", data.headline.rebalances ? "The chosen groups had no rebalance." : "No rebalances: the table has none.");
  const lost = added(rows.map((row) => ({ ...row, ms: row.join_ms == null || row.sync_ms == null ? row.ended_at - row.started_at : row.join_ms + row.sync_ms })), (row) => row.group_id, ["ms"]).sort((a, b) => b.ms - a.ms);
  const groups = lost.slice(0, TRACKS_MAX).map((each) => each.key);
  const shown = rows.filter((row) => groups.includes(row.group_id));
  const bars = shown.flatMap((row) => {
    const track = groups.indexOf(row.group_id), shade = causeColour(text(row.cause)), words = rebalanceWords(row);
    const synced = row.started_at + (row.join_ms ?? 0);  // How long members joined may not be known.
    return [
      { track, from: row.started_at, to: synced, shade, words },
      { track, from: synced, to: synced + (row.sync_ms ?? row.ended_at - synced), shade, opacity: 0.5, words },
    ];
  });
  show("timeline", null, (place) => tracks(place, groups.map(text), bars));
  causeLegend("timeline", byCount(shown, "cause"));
  const counts = groupsShown().reduce((sum, row) => sum + (row.rebalances ?? 0), 0);
  note("timeline", [
    lost.length > groups.length ? `Shown: the ${groups.length} groups that lost most time, of ${counted(lost.length)}.` : "",
    counts > rows.length ? `The page has the ${counted(rows.length)} longest rebalances of ${counted(counts)}.` : "",
    "Very short ones are drawn a little wider than they were.",
  ].join(" "));
}
function rebalanceWords(row) {
  const clientAt = (client, host) => (client < 0 ? "" : `${text(client)}${host < 0 ? "" : ` at ${text(host)}`}`);
  const last = clientAt(row.last_client_id, row.last_client_host);
  const within = row.causes.map(text).filter((cause) => cause !== text(row.cause)).map(humanly);
  const lines = [
    `<b>${safe(humanly(text(row.cause)))}</b> in <b>${safe(text(row.group_id))}</b>`,
    wrapped(text(row.reason)),
    `${exactly(row.started_at)} UTC, ${duration(row.join_ms == null || row.sync_ms == null ? null : row.join_ms + row.sync_ms)}: join ${duration(row.join_ms)}, sync ${duration(row.sync_ms)}`,
    row.client_id < 0 ? "" : wrapped(`through ${clientAt(row.client_id, row.client_host)}`),
    last ? wrapped(`waited for: ${last}${row.last_arrival_ms == null ? "" : `, after ${duration(row.last_arrival_ms)}`}`) : "",
    within.length ? wrapped(`within it: ${within.join(", ")}`) : "",
    `${row.attempts > 1 ? `${row.attempts} attempts, ` : ""}generation or epoch ${row.generation_id}, ${plural(row.member_count, "member")}, then ${safe(text(row.outcome))}`,
  ];
  return lines.filter(Boolean).join("<br>");
}

function drawPace() {
  const rows = totalled(tables.pace);
  if (!rows.length) return show("pace", data.headline.rebalances ? "The chosen groups had no rebalance." : "No rebalances: the table has none.");
  const { width } = data.pace;
  const causes = added(rows, (row) => row.cause, ["duration_ms"]).sort((a, b) => b.duration_ms - a.duration_ms).map((each) => each.key);
  const traces = causes.map((cause) => {
    const steps = added(rows.filter((row) => row.cause === cause), (row) => row.at_ms, ["rows", "unknown", "duration_ms"]);
    return {
      type: "bar", x: steps.map((step) => step.key + width / 2), y: steps.map((step) => step.duration_ms), width: width * 0.86,
      marker: { color: causeColour(text(cause)), line: { width: 0 } }, hoverinfo: "text", textposition: "none",
      hovertext: steps.map((step) => `<b>${safe(humanly(text(cause)))}</b><br>${moment(step.key)} to ${moment(step.key + width)} UTC<br>${plural(step.rows, "rebalance")}, ${lengthOf(step.duration_ms, step.rows, step.unknown)}`),
    };
  });
  const most = Math.max(...added(rows, (row) => row.at_ms, ["duration_ms"]).map((each) => each.duration_ms), 1);
  show("pace", null, (place) => timeChart(place, traces, layoutOf(heightBeside("causes", 300) - 20, {
    barmode: "stack", hovermode: "closest", margin: { l: 62, r: 10, t: 10, b: 34 }, xaxis: timeAxis({ nticks: 5 }), yaxis: valueAxis(durationTicks(most)),
  })));
  note("pace", `Steps of ${duration(width)}; colours as in the list of causes.`);
}

function drawStorms() {
  const rows = ofChosen(tables.storms);
  if (!rows.length) return show("storms", `No storms: ${chosen.size ? "none of the chosen groups" : "no group"} spent more than the set share of a window rebalancing.`);
  const { groups, all } = foremost(rows, (row) => row.share, TRACKS_MAX);
  const shown = rows.filter((row) => groups.includes(row.group_id));
  const bars = shown.map((row) => ({
    track: groups.indexOf(row.group_id), from: row.window_start, to: row.window_end, shade: colour("c2"),
    opacity: [0.4, 0.6, 0.8, 1][Math.min(3, Math.floor(row.share * 4))],
    words: `<b>${safe(text(row.group_id))}</b><br>${moment(row.window_start)} to ${clock(row.window_end)} UTC<br>${number.format(Math.round(row.share * 1000) / 10)} % of the window: ${duration(row.rebalancing_ms)} in ${plural(row.rebalances, "rebalance")}`,
  }));
  show("storms", null, (place) => tracks(place, groups.map(text), bars));
  const counts = groupsShown().reduce((sum, row) => sum + (row.storms ?? 0), 0);
  note("storms", [all > groups.length ? `Shown: ${groups.length} groups of ${counted(all)}.` : "", more(rows.length, counts, "window")].join(" ").trim());
}

function drawLengths() {
  const rows = totalled(tables.lengths);
  if (!rows.length) return show("lengths", `No sessions: as far as the table shows, no member of ${someGroup()} has ended.`);
  const limits = data.lengths.limits.map((each) => duration(each));
  const names = [`under ${limits[0]}`, ...limits.slice(1).map((limit) => `to ${limit}`), `over ${limits.at(-1)}`, "since before"];
  const ends = added(rows, (row) => row.ended_by, ["rows"]).sort((a, b) => b.rows - a.rows).map((each) => each.key);
  const traces = ends.map((end) => {
    const counts = added(rows.filter((row) => row.ended_by === end), (row) => row.length, ["rows"]);
    return {
      type: "bar", orientation: "h", y: counts.map((each) => each.key), x: counts.map((each) => each.rows), width: 0.7,
      marker: { color: causeColour(text(end)), line: { width: 0 } }, hoverinfo: "text", textposition: "none",
      hovertext: counts.map((each) => `${plural(each.rows, "session")} of ${names[each.key]}<br>ended by ${safe(humanly(text(end)))}`),
    };
  });
  show("lengths", null, (place) => Plotly.react(place, traces, layoutOf(heightBeside("churn", 300), {
    barmode: "stack", hovermode: "closest", dragmode: false, margin: { l: 84, r: 10, t: 6, b: 34 },
    xaxis: valueAxis({ nticks: 5, tickformat: "~s" }),
    yaxis: { fixedrange: true, range: [names.length - 0.4, -0.6], tickvals: names.map((_, index) => index), ticktext: names, showgrid: false, zeroline: false },
  }), CONFIG));
  causeLegend("lengths", ends.map(text));
}

function drawSessions() {
  const busiest = tables.groups.filter((row) => row.sessions).sort((a, b) => b.churn - a.churn || b.sessions - a.sessions)[0];
  const rows = chosen.size ? ofChosen(tables.sessions) : tables.sessions.filter((row) => row.group_id === busiest?.group);
  byId("sessions-lede").textContent = chosen.size || !busiest
    ? "Each closed session of a client, coloured by how it ended."
    : `Each closed session of a client, coloured by how it ended: of ${text(busiest.group)}, where most come and go. Choose another group to see its members.`;
  if (!rows.length) return show("sessions", `No sessions: as far as the table shows, no member of ${someGroup()} has ended.`);
  const nameOf = (row) => (chosen.size > 1 ? `${text(row.group_id)} · ` : "") + (text(row.client_id) || text(row.member_id));
  const clients = added(rows.map((row) => ({ ...row, one: 1 })), nameOf, ["one"]).sort((a, b) => b.one - a.one || (a.key < b.key ? -1 : 1));
  const names = clients.slice(0, CLIENTS_MAX).map((each) => each.key);
  const shown = rows.filter((row) => names.includes(nameOf(row)));
  const bars = shown.map((row) => ({
    track: names.indexOf(nameOf(row)), from: row.started_at ?? Math.min(data.span[0], row.ended_at), to: row.ended_at,
    shade: causeColour(text(row.ended_by)), opacity: row.started_at == null ? 0.45 : 0.85,
    words: [
      `<b>${safe(text(row.client_id) || "without client id")}</b>${row.client_host < 0 ? "" : ` at ${safe(text(row.client_host))}`}`,
      wrapped(`member ${text(row.member_id)}${row.group_instance_id < 0 ? "" : `, instance ${text(row.group_instance_id)}`}`),
      row.started_at == null ? `since before the table begins, to ${exactly(row.ended_at)} UTC` : `${exactly(row.started_at)} to ${exactly(row.ended_at)} UTC, ${duration(row.duration_ms)}`,
      `${row.joined_by < 0 ? "" : `joined by ${safe(humanly(text(row.joined_by)))}, `}ended by ${safe(humanly(text(row.ended_by)))}`,
    ].join("<br>"),
  }));
  show("sessions", null, (place) => tracks(place, names, bars, { edge: colour("card") }));
  causeLegend("sessions", byCount(shown, "ended_by"));
  const counts = (chosen.size ? groupsShown() : [busiest]).reduce((sum, row) => sum + (row.sessions ?? 0), 0);
  note("sessions", [
    clients.length > names.length ? `Shown: the ${names.length} clients with most sessions, of ${counted(clients.length)}.` : "",
    counts > rows.length ? `The page has the ${counted(rows.length)} newest sessions of ${counted(counts)}.` : "",
    shown.some((row) => row.started_at == null) ? "Pale: it began before the table does." : "",
  ].join(" ").trim());
}

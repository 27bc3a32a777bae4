// What plotly needs in every chart: the scheme's colours, one time axis for all, nothing that asks a network.
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };
const onTouch = matchMedia("(pointer: coarse)").matches;
const drawn = new Map(); // Charts on the time axis: element id -> whether it is there now.

function layoutOf(height, more) {
  const font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") };
  return {
    height, font,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    margin: { l: 52, r: 10, t: 10, b: 34 }, dragmode: onTouch ? false : "zoom", separators: ".,",
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { ...font, color: colour("ink") }, align: "left", namelength: -1 },
    ...more,
  };
}
const TIME_FORMATS = [
  { dtickrange: [null, 999], value: "%H:%M:%S.%L\n%e %b" },
  { dtickrange: [1000, 59999], value: "%H:%M:%S\n%e %b" },
  { dtickrange: [60000, 86399999], value: "%H:%M\n%e %b" },
  { dtickrange: [86400000, null], value: "%e %b\n%Y" },
];
function timeAxis(more) {
  return {
    type: "date", range: stretch ?? wholeSpan(), gridcolor: colour("line"), linecolor: colour("line"), zeroline: false,
    hoverformat: "%a %e %b %Y, %H:%M UTC", nticks: innerWidth < 600 ? 4 : 9, tickangle: 0, tickformatstops: TIME_FORMATS, ...more,
  };
}
function valueAxis(more) {
  return { fixedrange: true, gridcolor: colour("line"), zerolinecolor: colour("line"), rangemode: "tozero", automargin: false, ...more };
}
/** At most five round marks of a duration axis up to `most` ms. */
function durationTicks(most) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3,
    3600e3, 7200e3, 10800e3, 21600e3, 43200e3, 86400e3];
  let step = steps.find((each) => most / each <= 4.5) ?? Math.ceil(most / 4 / 86400e3) * 86400e3;
  const tickvals = Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
  return { tickmode: "array", tickvals, ticktext: tickvals.map((each) => (each ? duration(each) : "0")) };
}
const caption = (words, more) => ({
  text: words, showarrow: false, xref: "paper", x: 0, xanchor: "left", yanchor: "bottom",
  font: { size: 12, color: colour("soft") }, ...more,
});

/** Show a chart, or where there is nothing to draw the sentence that says so. */
function show(section, sentence, chart) {
  const card = byId(section);
  card.querySelector(".empty").textContent = sentence ?? "";
  for (const part of card.querySelectorAll(".chart, .legend, .list, .scroll, .lede")) part.hidden = Boolean(sentence) && !part.matches(".lede");
  const place = `${section}-chart`;
  if (sentence && byId(place)) {
    Plotly.purge(place);
    drawn.delete(place);
  }
  if (!sentence && chart) chart(place);
}
function note(section, sentence) {
  byId(section).querySelector(".note").textContent = sentence;
}
/** A chart on the common time axis: a stretch that is drawn over becomes that of all charts, a double click undoes it. */
function timeChart(place, traces, layout) {
  const chart = byId(place);
  Plotly.react(chart, traces, layout, CONFIG);
  if (!drawn.has(place)) {
    chart.removeAllListeners?.("plotly_relayout");
    chart.removeAllListeners?.("plotly_doubleclick");
    chart.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] !== undefined && !change.ours) zoom([asMs(change["xaxis.range[0]"]), asMs(change["xaxis.range[1]"])]);
    });
    chart.on("plotly_doubleclick", () => zoom(null));
  }
  drawn.set(place, true);
}
const asMs = (value) => (typeof value === "number" ? value : Date.parse(`${value.replace(" ", "T")}${value.length > 10 ? "" : "T00:00"}Z`));
function zoom(range) {
  const same = range && stretch && range.every((each, index) => Math.abs(each - stretch[index]) < 1);
  if (same) return;
  stretch = range;
  byId("unzoom").hidden = !stretch;
  for (const place of drawn.keys()) Plotly.relayout(place, { "xaxis.range[0]": (stretch ?? wholeSpan())[0], "xaxis.range[1]": (stretch ?? wholeSpan())[1], ours: true });
}

function legend(section, entries) {
  byId(`${section}-legend`).replaceChildren(...entries.map(([words, shade, onclick]) => {
    const swatch = element("i", { class: "swatch", style: { background: shade } });
    return onclick ? element("button", { type: "button", onclick }, swatch, words) : element("span", {}, swatch, words);
  }));
}
function causeLegend(section, causes) {
  legend(section, causes.map((cause) => [humanly(cause), causeColour(cause)]));
}
const byCount = (rows, name) => added(rows.map((row) => ({ ...row, one: 1 })), (row) => text(row[name]), ["one"])
  .sort((a, b) => b.one - a.one).map((each) => each.key);

const TRACK = 46; // Pixels of a row: its name above, its bars below.
const TRACKS_LEAST = 180; // Of all rows: plotly leaves a hover text out that is higher than its chart.

/** As high as the list beside it, within reason. */
const heightBeside = (section, least) => (innerWidth > 780 ? Math.min(560, Math.max(least, byId(`${section}-list`).offsetHeight)) : least);

/** Bars on tracks, one track per name: `bars` are {track, from, to, shade, opacity, words}. */
function tracks(place, names, bars, more = {}) {
  const looks = new Map();
  for (const bar of bars) {
    const look = `${bar.shade} ${bar.opacity ?? 1}`;
    if (!looks.has(look)) looks.set(look, []);
    looks.get(look).push(bar);
  }
  const traces = [...looks.values()].map((group) => ({
    type: "bar", orientation: "h", width: 0.4, offset: 0.03,
    base: group.map((bar) => bar.from), x: group.map((bar) => bar.to - bar.from), y: group.map((bar) => bar.track),
    marker: { color: group[0].shade, opacity: group[0].opacity ?? 1, line: { color: more.edge ?? group[0].shade, width: 1.5 } },
    hovertext: group.map((bar) => bar.words), hoverinfo: "text", textposition: "none",
  }));
  // plotly finds a bar only within it, and most are narrower than a pixel; a point it finds from nearby.
  traces.push({
    type: "scatter", mode: "markers", x: bars.map((bar) => (bar.from + bar.to) / 2), y: bars.map((bar) => bar.track + 0.23),
    marker: { opacity: 0, size: 12 }, hovertext: bars.map((bar) => bar.words), hoverinfo: "text",
    hoverlabel: { bordercolor: colour("line"), bgcolor: colour("card") },
  });
  const annotations = names.map((name, track) => caption(safe(name), { y: track, yref: "y", yanchor: "bottom", yshift: 0, font: { size: 12, color: colour("ink") } }));
  timeChart(place, traces, layoutOf(Math.max(names.length * TRACK, TRACKS_LEAST) + 46, {
    barmode: "overlay", hovermode: "closest", hoverdistance: 40, annotations, margin: { l: 4, r: 10, t: 6, b: 34 },
    xaxis: timeAxis(), yaxis: valueAxis({ range: [names.length - 0.42, -0.55], showgrid: false, visible: false, zeroline: false }),
  }));
}

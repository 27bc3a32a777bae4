// How figures, times and texts are written. Texts that clients chose go through `safe` wherever plotly takes them,
// for it reads a little HTML; everywhere else they are text nodes.
const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const large = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const counted = (count) => (count == null ? "unknown" : Math.abs(count) < 1e6 ? number.format(count) : large.format(count));
const plural = (count, noun) => `${counted(count)} ${noun}${count === 1 ? "" : "s"}`;
const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const humanly = (slug) => slug.replace(/_/g, " ");

/** Milliseconds as people say them, in at most two units. */
function duration(ms) {
  if (ms == null) return "unknown";
  if (ms < 1000) return `${number.format(Math.round(ms))} ms`;
  if (ms < 59950) return `${number.format(Math.round(ms / 100) / 10)} s`;
  const units = [["d", 86400e3], ["h", 3600e3], ["min", 60e3], ["s", 1e3]];
  const first = units.findIndex(([, size]) => ms >= size);
  const [name, size] = units[first];
  const next = units[first + 1];
  if (!next) return `${Math.round(ms / size)} ${name}`;
  const rounded = Math.round(ms / next[1]) * next[1];
  const whole = Math.floor(rounded / size);
  const rest = Math.round((rounded - whole * size) / next[1]);
  return `${number.format(whole)} ${name}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

const pad = (value) => String(value).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const isTime = (ms) => Number.isFinite(new Date(ms).getTime());
const day = (ms) => { const at = new Date(ms); return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`; };
const clock = (ms) => { const at = new Date(ms); return `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`; };
const exactly = (ms) => (isTime(ms) ? `${day(ms)} ${clock(ms)}:${pad(new Date(ms).getUTCSeconds())}` : "at an impossible time");
const moment = (ms) => (isTime(ms) ? `${day(ms)} ${clock(ms)}` : "an impossible time");

/** The length of `rows` together, of which so many are of unknown length. */
const lengthOf = (ms, rows, unknown) => (rows && unknown === rows ? "unknown" : duration(ms));
const averageLength = (ms, rows, unknown) => [
  unknown < rows ? `${duration(ms / (rows - unknown))} on average` : "",
  unknown ? `${unknown < rows ? `${unknown}` : "all"} of unknown length` : "",
].filter(Boolean).join(", ");

/** Lines of some 56 characters; a word that is longer is broken. */
function wrapped(text, width = 56) {
  const lines = [];
  for (let rest = text; rest; ) {
    const space = rest.lastIndexOf(" ", width);
    const end = rest.length <= width ? rest.length : space > 0 ? space : width;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return lines.map(safe).join("<br>");
}

/** An element with attributes, and children that are elements or text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(made.style, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const byId = (id) => document.getElementById(id);

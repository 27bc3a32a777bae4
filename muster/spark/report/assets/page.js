// The page as a whole: the filter, and drawing everything again when the choice, the scheme or the width changes.
const CHIPS_MAX = 6;
const DRAWERS = [drawTiles, drawGroups, drawLag, drawTimeline, drawCauses, drawPace, drawStorms, drawChurn, drawLengths, drawSessions, drawNoisy, drawLetters];

function drawPicker() {
  const names = [...chosen];
  byId("picker-summary").textContent = chosen.size ? plural(chosen.size, "group") : `All ${plural(data.group_count, "group")}`;
  byId("chips").replaceChildren(...names.slice(0, CHIPS_MAX).map((group) => element("button",
    { type: "button", title: `Without ${text(group)}`, onclick: () => toggle(group) }, text(group))));
  byId("clear").hidden = !chosen.size;
  for (const box of byId("picker-list").querySelectorAll("input")) box.checked = chosen.has(Number(box.value));
  const left = data.group_count - tables.groups.length;
  byId("picker-note").textContent = left > 0 ? `The page has the ${counted(tables.groups.length)} groups that stand out, of ${counted(data.group_count)}; a report with --group has any other.` : "";
}
function fillPicker() {
  const names = tables.groups.map((row) => row.group).sort((a, b) => (text(a) < text(b) ? -1 : 1));
  byId("picker-list").replaceChildren(...names.map((group) => element("li", {}, element("label", { title: text(group) },
    element("input", { type: "checkbox", value: String(group), onchange: () => toggle(group) }), element("span", {}, text(group))))));
}
function draw() {
  drawPicker();
  for (const drawer of DRAWERS) drawer();
}

byId("picker-search").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const item of byId("picker-list").children) item.hidden = !item.textContent.toLowerCase().includes(wanted);
});
byId("clear").addEventListener("click", () => choose([]));
byId("unzoom").addEventListener("click", () => zoom(null));
byId("groups-more").addEventListener("click", () => { wholeTable = !wholeTable; drawGroups(); });
document.addEventListener("click", (event) => { if (!byId("picker").contains(event.target)) byId("picker").open = false; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") byId("picker").open = false; });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let width = innerWidth;
addEventListener("resize", () => {
  if ((width < 600) !== (innerWidth < 600)) draw();
  width = innerWidth;
});
fillPicker();
draw();
document.documentElement.dataset.drawn = "yes";

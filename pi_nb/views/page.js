// The page is complete without this. It adds arrow keys and folding to the tree (the
// tree view pattern of the WAI-ARIA practices), and reading one branch alone. It builds no
// markup from what the session says: it only moves, marks and hides what is there.
"use strict";

const tree = document.querySelector("nav .tree");
const articles = new Map([...document.querySelectorAll("article")].map((a) => [a.id, a]));

/* --- which entries lie on a branch ------------------------------------------------------ */

// Entries come after their parents in number, so backwards the newest below is known first.
const newest = new Map(); // id of an entry -> id of the newest child's line
const byNumber = [...articles.values()].sort((a, b) => a.dataset.number - b.dataset.number);
const reach = new Map(); // id -> highest number at or below it
for (const article of byNumber.reverse()) {
  const own = Math.max(reach.get(article.id) ?? 0, Number(article.dataset.number));
  reach.set(article.id, own);
  const above = article.dataset.parent;
  if (above && own > (reach.get(above) ?? 0)) {
    reach.set(above, own);
    newest.set(above, article.id);
  }
}

/** The ids from the root through an entry to the newest one below it. */
function branchThrough(id) {
  const found = new Set();
  for (let at = id; articles.has(at) && !found.has(at); at = articles.get(at).dataset.parent) {
    found.add(at);
  }
  for (let at = newest.get(id); at && !found.has(at); at = newest.get(at)) found.add(at);
  return found;
}

/* --- reading one branch ----------------------------------------------------------------- */

const forks = document.querySelectorAll("main .fork");
let alone = null; // the checkbox, where there is more than one branch
let current = null; // id of the entry that was chosen last

function show() {
  const kept = alone?.checked && current ? branchThrough(current) : null;
  for (const [id, article] of articles) article.hidden = kept !== null && !kept.has(id);
  for (const fork of forks) fork.hidden = kept !== null;
}

function addControls() {
  const label = document.createElement("label");
  label.className = "controls";
  alone = document.createElement("input");
  alone.type = "checkbox";
  alone.addEventListener("change", () => {
    current ??= items().findLast((item) => item.matches(".on") && item.dataset.entry)?.dataset.entry;
    show();
  });
  label.append(alone, " Only the branch of the chosen entry");
  tree.before(label);
}

/* --- the tree --------------------------------------------------------------------------- */

const items = () => [...tree.querySelectorAll("[role=treeitem]")];
const visible = () => items().filter((item) => !item.parentElement.closest("[hidden]"));
const above = (item) => item.parentElement.closest("[role=treeitem]");

function addRoles(list, level) {
  const pending = [[list, level]];
  while (pending.length) {
    const [ul, depth] = pending.pop();
    ul.setAttribute("role", depth === 1 ? "tree" : "group");
    const own = [...ul.children];
    own.forEach((item, index) => {
      const link = item.querySelector(":scope > a");
      const inside = item.querySelector(":scope > ul");
      item.setAttribute("role", "treeitem");
      item.setAttribute("aria-level", depth);
      item.setAttribute("aria-setsize", own.length);
      item.setAttribute("aria-posinset", index + 1);
      item.tabIndex = -1;
      if (link) {
        link.tabIndex = -1;
        item.dataset.entry = decodeURIComponent(link.hash.slice(1));
        item.setAttribute("aria-selected", "false");
      }
      if (inside) {
        item.setAttribute("aria-label", item.querySelector(":scope > .name").textContent);
        item.setAttribute("aria-expanded", "true");
        pending.push([inside, depth + 1]);
      }
    });
  }
}

function expand(item, open) {
  if (!item.hasAttribute("aria-expanded")) return;
  item.setAttribute("aria-expanded", String(open));
  item.querySelector(":scope > ul").hidden = !open;
}

function focus(item) {
  if (!item) return;
  for (const other of tree.querySelectorAll("[role=treeitem][tabindex='0']")) other.tabIndex = -1;
  item.tabIndex = 0;
  item.focus();
}

function select(id) {
  for (const item of tree.querySelectorAll("[aria-selected=true]")) {
    item.setAttribute("aria-selected", "false");
  }
  const item = items().find((each) => each.dataset.entry === id);
  if (!item) return;
  item.setAttribute("aria-selected", "true");
  for (let at = above(item); at; at = above(at)) expand(at, true);
  for (const other of tree.querySelectorAll("[role=treeitem][tabindex='0']")) other.tabIndex = -1;
  item.tabIndex = 0;
  item.scrollIntoView({ block: "nearest" });
}

function choose(item) {
  if (item.dataset.entry) go(item.dataset.entry);
  else expand(item, item.getAttribute("aria-expanded") !== "true");
}

const open = (item) => item.getAttribute("aria-expanded") === "true";
const KEYS = {
  ArrowDown: (item, all) => focus(all[all.indexOf(item) + 1]),
  ArrowUp: (item, all) => focus(all[all.indexOf(item) - 1]),
  Home: (_, all) => focus(all[0]),
  End: (_, all) => focus(all.at(-1)),
  ArrowRight: (item, all) => (open(item) ? focus(all[all.indexOf(item) + 1]) : expand(item, true)),
  ArrowLeft: (item) => (open(item) ? expand(item, false) : focus(above(item))),
  Enter: choose,
  " ": choose,
};

function listen() {
  tree.addEventListener("keydown", (event) => {
    const item = event.target.closest("[role=treeitem]");
    const act = KEYS[event.key];
    if (!act || !item || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act(item, visible());
  });
  tree.addEventListener("click", (event) => {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    choose(item);
  });
}

/* --- links to entries ------------------------------------------------------------------- */

function go(id) {
  const hash = `#${encodeURIComponent(id)}`;
  if (location.hash === hash) arrive();
  else location.hash = hash;
}

function arrive() {
  const id = decodeURIComponent(location.hash.slice(1));
  const article = articles.get(id);
  if (!article) return;
  current = id;
  show();
  if (tree) select(id);
  article.scrollIntoView({ block: "start" });
  article.focus({ preventScroll: true });
}

if (tree) {
  addRoles(tree, 1);
  tree.setAttribute("aria-label", "Entries");
  if (tree.querySelector(".branch")) addControls();
  const first = items().find((item) => item.classList.contains("on")) ?? items()[0];
  if (first) first.tabIndex = 0;
  listen();
}
addEventListener("hashchange", arrive);
arrive();

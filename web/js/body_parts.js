// The picker of Select Body Parts: a widget whose value is the plain text of `parts`.

import { app } from "../../../scripts/app.js";
import { bodyFigure } from "./body_figure.js";
import { PartText, plainName } from "./part_text.js";

const WORDS = {
  en: {
    text: "parts, as a text", search: "search", groups: "groups", unknown: "not known:",
    nothing: "No part is called that.", more: "more",
  },
  zh: {
    text: "部位（文字）", search: "搜索", groups: "分组", unknown: "未知：",
    nothing: "没有这样的部位。", more: "其他",
  },
  ja: {
    text: "部位（文字）", search: "検索", groups: "グループ", unknown: "不明:",
    nothing: "該当する部位はありません。", more: "その他",
  },
};

// Headings of the list: a part stands under the smallest of these groups that has it.
const HEADINGS = ["head", "face details", "clothes", "arms", "hands", "legs", "feet"];
const MIN_WIDTH = 500; // two columns of parts beside the figure
const MIN_HEIGHT = 430;

function language() {
  const locale = String(app.extensionManager?.setting?.get?.("Comfy.Locale") ?? "en").slice(0, 2);
  return locale in WORDS ? locale : "en";
}

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

class Picker {
  /** @param table the server's parts, groups and names. @param onChange called with the text after each pick. */
  constructor(table, onChange) {
    this.table = table;
    this.onChange = onChange;
    this.language = language();
    this.words = WORDS[this.language];
    this.chosen = new PartText(table);
    this.rows = new Map();
    this.chips = new Map();

    this.field = make("input", { type: "text", className: "s2bp-text", ariaLabel: this.words.text, spellcheck: false });
    this.field.addEventListener("input", () => this.#changed(() => (this.chosen.text = this.field.value)));
    this.message = make("div", { className: "s2bp-unknown", role: "status" });
    this.search = make("input", {
      type: "search", className: "s2bp-search", placeholder: this.words.search, ariaLabel: this.words.search,
    });
    this.search.addEventListener("input", () => this.#filter());
    this.nothing = make("div", { className: "s2bp-nothing", role: "status" });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") this.#visibleBoxes()[0]?.focus();
    });
    this.figure = bodyFigure(table.parts, (part) => this.label(part), (part) => this.#toggle(part.name, [part.id]));
    this.element = make(
      "div", { className: "s2bp" }, this.field, this.message, this.#makeChips(),
      make("div", { className: "s2bp-body" }, this.figure.svg,
        make("div", { className: "s2bp-side" }, this.search, this.nothing, this.#makeList())),
    );
    this.element.addEventListener("keydown", (event) => {
      // The page's shortcuts are single keys, too; Ctrl+Enter and the like are still its own.
      if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
    });
    this.#show();
  }

  /** A part's or group's name in the page's language. */
  label(named) {
    return (this.language === "en" ? named.name : named[this.language]).replaceAll("_", " ");
  }

  get text() {
    return this.field.value;
  }

  set text(text) {
    this.chosen.text = text;
    this.field.value = text;
    this.#show();
  }

  /** Shows the parts that a run found: pairs of a name and its share of the picture. */
  showFound(pairs) {
    const shares = new Map(pairs);
    this.element.classList.toggle("s2bp-ran", true);
    for (const { part, row, share } of this.rows.values()) {
      const found = shares.get(part.name);
      row.classList.toggle("s2bp-found", found !== undefined);
      share.textContent = found === undefined ? "" : found < 0.001 ? "<0.1 %" : `${(found * 100).toFixed(1)} %`;
    }
  }

  #toggle(name, ids) {
    this.#changed(() => {
      this.chosen.toggle(name, ids);
      this.field.value = this.chosen.text;
    });
  }

  #changed(change) {
    change();
    this.#show();
    this.onChange(this.text);
  }

  #show() {
    const ids = this.chosen.ids;
    for (const [id, { box }] of this.rows) box.checked = ids.has(id);
    for (const [group, chip] of this.chips) {
      const on = group.ids.filter((id) => ids.has(id)).length;
      chip.ariaPressed = on === group.ids.length ? "true" : on ? "mixed" : "false";
    }
    this.figure.update(ids);
    const { unknown } = this.chosen;
    this.message.textContent = unknown.length ? `${this.words.unknown} ${unknown.join(", ")}` : "";
  }

  #makeChips() {
    const chips = make("div", { className: "s2bp-chips", role: "toolbar", ariaLabel: this.words.groups });
    for (const group of this.table.groups) {
      const chip = make("button", { type: "button", textContent: this.label(group), tabIndex: this.chips.size ? -1 : 0 });
      chip.dataset.group = group.name;
      chip.addEventListener("click", () => this.#toggle(group.name, group.ids));
      this.chips.set(group, chip);
      chips.append(chip);
    }
    walkWithArrows(chips, () => [...this.chips.values()]);
    return chips;
  }

  #makeList() {
    const list = make("div", { className: "s2bp-list" });
    list.dataset.captureWheel = "true"; // the Vue renderer's way to leave scrolling to an element
    list.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && list.scrollHeight > list.clientHeight) event.stopPropagation();
    });
    const groups = HEADINGS.map((name) => this.table.groups.find((group) => group.name === name));
    const bySize = groups.toSorted((one, other) => one.ids.length - other.ids.length);
    const sections = new Map([...groups, undefined].map((group) => [group, []]));
    for (const part of this.table.parts) sections.get(bySize.find((group) => group.ids.includes(part.id))).push(part);
    const columns = make("div", { className: "s2bp-columns" });
    list.append(columns);
    for (const [group, parts] of sections) {
      const heading = group ? this.label(group) : this.words.more;
      const section = make("div", { className: "s2bp-section", role: "group", ariaLabel: heading });
      section.append(make("div", { className: "s2bp-heading", textContent: heading }));
      section.append(...parts.map((part) => this.#makeRow(part)));
      columns.append(section);
    }
    this.#visibleBoxes()[0].tabIndex = 0;
    walkWithArrows(list, () => this.#visibleBoxes());
    return list;
  }

  #makeRow(part) {
    const box = make("input", { type: "checkbox", tabIndex: -1 });
    box.addEventListener("change", () => this.#toggle(part.name, [part.id]));
    const swatch = make("span", { className: "s2bp-swatch" });
    swatch.style.background = `rgb(${part.color.join(" ")})`;
    const share = make("span", { className: "s2bp-share" });
    const row = make("label", { className: "s2bp-row" }, box, swatch,
      make("span", { className: "s2bp-name", textContent: this.label(part) }), share);
    row.dataset.part = part.name;
    this.rows.set(part.id, { part, row, box, share });
    return row;
  }

  #visibleBoxes() {
    const boxes = [...this.rows.values()].filter(({ row }) => !row.hidden);
    return boxes.map(({ box }) => box).sort((a, b) => (a.compareDocumentPosition(b) & 4 ? -1 : 1));
  }

  /** Leaves the parts that the searched text means, or has part of a name of, in any language. */
  #filter() {
    const wanted = plainName(this.search.value);
    const names = Object.entries(this.table.names).filter(([name]) => name.includes(wanted));
    // And what the text understands: "left arm" is no part's name.
    const ids = new Set([...names.flatMap(([, ids]) => ids), ...new PartText(this.table, this.search.value).ids]);
    for (const [id, { row, box }] of this.rows) {
      row.hidden = !ids.has(id);
      box.tabIndex = -1;
    }
    for (const section of this.element.querySelectorAll(".s2bp-section")) {
      section.hidden = !section.querySelector(".s2bp-row:not([hidden])");
    }
    const first = this.#visibleBoxes()[0];
    if (first) first.tabIndex = 0;
    this.nothing.textContent = first ? "" : this.words.nothing;
  }
}

/** Tab reaches a row of things once; arrow keys, Home and End walk through it. */
function walkWithArrows(container, things) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  container.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    const all = things();
    const next = Math.max(0, Math.min(all.length - 1, all.indexOf(event.target) + steps[event.key]));
    event.preventDefault();
    all[next]?.focus();
  });
  container.addEventListener("focusin", (event) => {
    for (const thing of things()) thing.tabIndex = thing === event.target ? 0 : -1;
  });
}

function bodyPartsWidget(node, inputName, [, options]) {
  let widget = null;
  const picker = new Picker(options.bodyParts, (text) => {
    widget.callback?.(text);
    node.graph?.setDirtyCanvas?.(true, true);
  });
  picker.text = options.default ?? "";
  widget = node.addDOMWidget(inputName, "SAPIENS2_BODY_PARTS", picker.element, {
    getValue: () => picker.text,
    setValue: (text) => (picker.text = String(text ?? "")),
    getMinHeight: () => MIN_HEIGHT,
  });
  const { onExecuted } = node;
  node.onExecuted = function (output) {
    onExecuted?.apply(this, arguments);
    if (output?.body_parts) picker.showFound(output.body_parts);
  };
  return { widget, minWidth: MIN_WIDTH, minHeight: MIN_HEIGHT };
}

document.head.append(make("link", { rel: "stylesheet", href: new URL("body_parts.css", import.meta.url).href }));

app.registerExtension({
  name: "Sapiens2.BodyParts",
  getCustomWidgets: () => ({ SAPIENS2_BODY_PARTS: bodyPartsWidget }),
});

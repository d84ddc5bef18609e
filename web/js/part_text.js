// The text of `parts`, "Hair, left arm", and the ids of the parts it names. The names come from the server.

const SEPARATORS = /[,;\n、，；]+/;
const SIDE_FIRST = /^(left|right|l|r|左|右)[^\p{L}\p{N}]*(?:の|侧|側)?(.+)$/u;

/** A name without what people spell differently; the server's names are written like this. */
export function plainName(name) {
  const words = name.normalize("NFKC").toLowerCase().split(/[^\p{L}\p{N}]+/u);
  return words.map((word) => word.replace(/(?<=[a-z]{2}[a-rt-z])s$/, "")).join("");
}

/** A text that names parts, as a list of its names with the ids each stands for. */
export class PartText {
  /** @param table {parts, groups, names} of the server. */
  constructor(table, text = "") {
    this.table = table;
    this.text = text;
  }

  get text() {
    return this.entries.map((entry) => entry.name).join(", ");
  }

  set text(text) {
    const names = text.split(SEPARATORS).map((name) => name.trim());
    this.entries = names.filter(Boolean).map((name) => ({ name, ids: this.#find(name) }));
  }

  #find(name) {
    const ids = this.table.names[plainName(name)];
    if (ids) return ids;
    const sided = SIDE_FIRST.exec(name.normalize("NFKC").toLowerCase());
    if (!sided) return [];
    const side = this.table.names[/^(l|左)/.test(sided[1]) ? "left" : "right"];
    return (this.table.names[plainName(sided[2])] ?? []).filter((id) => side.includes(id));
  }

  /** Ids of all parts that are named. */
  get ids() {
    return new Set(this.entries.flatMap((entry) => entry.ids));
  }

  /** Names that stand for no part. */
  get unknown() {
    return this.entries.filter((entry) => !entry.ids.length).map((entry) => entry.name);
  }

  /** Adds a part or group, or takes it off when all of it is named; other names stay as they were written. */
  toggle(name, ids) {
    const named = this.ids;
    const isOn = ids.every((id) => named.has(id));
    const rest = [];
    for (const entry of this.entries) {
      const left = entry.ids.filter((id) => !ids.includes(id));
      if (left.length === entry.ids.length) rest.push(entry);
      else if (left.length && !isOn) rest.push(entry);
      else for (const id of left) rest.push({ name: this.table.parts[id].name, ids: [id] });
    }
    if (!isOn) rest.push({ name, ids });
    this.entries = rest;
  }
}

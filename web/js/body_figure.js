// A person as an SVG whose parts can be clicked. It faces the viewer: the person's left is on the right.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 252;

// Shapes by part, in the order in which they are drawn. Right parts are mirrored left ones.
const SHAPES = {
  Background: "M6 0H114a6 6 0 0 1 6 6V246a6 6 0 0 1-6 6H6a6 6 0 0 1-6-6V6a6 6 0 0 1 6-6Z",
  Torso: "M44 60H76C80 62 82 66 82 72L79 117H41L38 72C38 66 40 62 44 60Z",
  Face_Neck: "M46 34C46 20 74 20 74 34C74 44 70 50 66 53V61C64 64 56 64 54 61V53C50 50 46 44 46 34Z",
  Hair: "M42 38C36 6 84 6 78 38L76 46L74 34C68 25 52 25 46 34L44 46Z",
  Eyeglass: "M48 34a5 5 0 1 1 10 .5q2-1.5 4 0a5 5 0 1 1 0 2q-2-1.5-4 0a5 5 0 1 1-10-2.5Z",
  Upper_Clothing: "M44 61L53 60.500C56 70 64 70 67 60.500L76 61C81 63 83 67 83 73L80 107H40L37 73C37 67 39 63 44 61Z",
  Apparel: "M41 117H79V123H41Z",
  Lower_Clothing: "M41 123H79L83 159H62L60 141L58 159H37Z",
  Left_Upper_Leg: "M62 159H83L80 186H64Z",
  Left_Lower_Leg: "M64 186H80L77 219H66Z",
  Left_Sock: "M66 219H77V229H66Z",
  Left_Foot: "M66 229H77C82 231 87 235 88 239H66Z",
  Left_Shoe: "M65 239H89C92 243 90 248 88 248H65Z",
  Left_Upper_Arm: "M83 65C89 67 91 74 92 80L95 102L86 104L82 80Z",
  Left_Lower_Arm: "M86 104L95 102L101 133L93 135Z",
  Left_Hand: "M93 135L101 133C107 139 106 152 101 152C96 152 92 144 93 135Z",
};

// The mouth, enlarged in a corner.
const MOUTH = {
  Upper_Lip: "M5 22Q13 9 21 13Q29 9 37 22Q21 14 5 22Z",
  Upper_Teeth: "M8 21Q21 13 34 21L32 25H10Z",
  Tongue: "M10 25H32Q30 31 21 31Q12 31 10 25Z",
  Lower_Teeth: "M10 25Q12 31 21 31Q30 31 32 25L34 26Q30 36 21 36Q12 36 8 26Z",
  Lower_Lip: "M5 22Q7 44 21 44Q35 44 37 22Q33 37 21 37Q9 37 5 22Z",
};

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/**
 * Draws the figure.
 *
 * @param parts the server's table of parts.
 * @param label shown name of a part.
 * @param onPick called with a part that was clicked.
 * @returns {svg, update(ids)}: update shows which parts are chosen.
 */
export function bodyFigure(parts, label, onPick) {
  // The list beside it says and does the same, for keyboards and screen readers.
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "s2bp-figure", "aria-hidden": "true" });
  const byName = new Map(parts.map((part) => [part.name, part]));
  const drawn = new Map();

  function draw(parent, name, d, transform) {
    const part = byName.get(name);
    const path = element("path", { d, "data-part": name, ...(transform && { transform }) });
    path.style.setProperty("--part", `rgb(${part.color.join(" ")})`);
    const title = element("title", {});
    title.textContent = label(part);
    path.append(title);
    path.addEventListener("click", () => onPick(part));
    parent.append(path);
    drawn.set(part.id, path);
  }

  for (const [name, d] of Object.entries(SHAPES)) {
    draw(svg, name, d);
    if (name.startsWith("Left_")) draw(svg, name.replace("Left_", "Right_"), d, `matrix(-1 0 0 1 ${WIDTH} 0)`);
  }
  const inset = element("g", { transform: "translate(1 3) scale(.92)" });
  svg.append(element("path", { d: "M36 34L57 46", class: "s2bp-leader" }), inset);
  inset.append(element("circle", { cx: 21, cy: 26, r: 21, class: "s2bp-inset" }));
  for (const [name, d] of Object.entries(MOUTH)) draw(inset, name, d);

  return {
    svg,
    update(ids) {
      for (const [id, path] of drawn) path.classList.toggle("s2bp-on", ids.has(id));
    },
  };
}

// Opens the help of each node and tells its heading and the width of its pictures, 0 where one can't be loaded.

const { onPage } = require("./page.js");

onPage(async ({ page, task, shot }) => {
  const pages = {};
  for (const type of task.types) {
    await page.evaluate((type) => {
      app.graph.clear();
      const node = LiteGraph.createNode(type);
      node.pos = [500, 300];
      app.graph.add(node);
      app.canvas.ds.scale = 1;
      app.canvas.ds.offset = [0, 0];
      app.canvas.selectNodes([node]);
    }, type);
    const panel = page.locator(".node-help-content");
    if (!(await panel.isVisible())) await page.locator("[data-testid=info-button]").click();
    await page.waitForFunction(
      (title) => [...document.querySelectorAll("h1")].some((heading) => heading.textContent === title),
      task.titles[type],
    );
    await page.waitForFunction(() => [...document.querySelectorAll("img[src*='/docs/']")].every((img) => img.complete));
    pages[type] = await page
      .locator("img[src*='/docs/']")
      .evaluateAll((pictures) => pictures.map((picture) => picture.naturalWidth));
    await shot(`help ${type}`);
  }
  return { pages };
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

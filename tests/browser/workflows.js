// Opens each graph and tells what the page complains about.

const { onPage } = require("./page.js");

onPage(async ({ page, task, open, shot }) => {
  const missing = {};
  for (const [name, graph] of Object.entries(task.graphs)) {
    await open(graph);
    await page.waitForTimeout(500); // a dialog of missing nodes would open now
    missing[name] = await page.evaluate(() => [
      ...app.graph.nodes.map((node) => node.type).filter((type) => !(type in LiteGraph.registered_node_types)),
      ...[...document.querySelectorAll("[role=dialog]")].map((dialog) => dialog.innerText).filter((t) => /missing/i.test(t)),
    ]);
    await shot(name);
  }
  return { missing };
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

// Adds each blueprint as a person does, by its name in the search, and gives what the page sends when it is run.

const { onPage } = require("./page.js");

onPage(async ({ page, task, shot }) => {
  const prompts = {};
  const widgets = {};
  for (const name of task.names) {
    await page.evaluate(() => app.graph.clear());
    await page.evaluate(() => app.extensionManager.command.execute("Workspace.SearchBox.Toggle"));
    const search = page.locator("input[role=combobox], [role=dialog] input[type=text]").first();
    await search.waitFor();
    await search.fill(name);
    await page.getByText(name, { exact: false }).first().waitFor();
    await page.waitForTimeout(500); // results are sorted once more after the first ones are shown
    await page.keyboard.press("Enter");
    await search.waitFor({ state: "hidden" });
    await page.mouse.click(900, 300);
    await page.waitForFunction(() => app.graph.nodes.length === 1);
    [prompts[name], widgets[name]] = await page.evaluate(async ({ picture, previews }) => {
      const [node] = app.graph.nodes;
      const load = LiteGraph.createNode("LoadImage");
      app.graph.add(load);
      load.widgets[0].value = picture;
      load.connect(0, node, 0);
      const preview = LiteGraph.createNode(previews[node.outputs[0].type]);
      app.graph.add(preview);
      node.connect(0, preview, 0);
      return [(await app.graphToPrompt()).output, node.widgets.map((widget) => [widget.name, widget.value])];
    }, task);
    await shot(`blueprint ${name}`);
  }
  return { prompts, widgets };
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

// Picks body parts as a person does, runs the graph, and tells what the picker showed.

const { onPage } = require("./page.js");

onPage(async ({ page, task, open, shot }) => {
  await page.evaluate((vue) => app.extensionManager.setting.set("Comfy.VueNodes.Enabled", vue), task.vue);
  await open(task.graph);
  await page.evaluate(() => {
    const node = app.graph.nodes.find((node) => node.type === "Sapiens2SelectBodyParts");
    app.canvas.ds.scale = 1;
    app.canvas.ds.offset = [300 - node.pos[0], 120 - node.pos[1]];
    app.canvas.setDirty(true, true);
  });
  const picker = page.locator(".s2bp");
  const text = picker.locator(".s2bp-text");
  await picker.waitFor();

  const state = async () => ({
    text: await text.inputValue(),
    widget: await page.evaluate(
      () => app.graph.serialize().nodes.find((node) => node.type === "Sapiens2SelectBodyParts").widgets_values[0],
    ),
    checked: await picker.locator(".s2bp-row:has(input:checked)").evaluateAll((rows) => rows.map((r) => r.dataset.part)),
    drawn: await picker.locator("path.s2bp-on").evaluateAll((paths) => paths.map((p) => p.dataset.part)),
    pressed: await picker.locator("[aria-pressed=true]").evaluateAll((chips) => chips.map((c) => c.dataset.group)),
    unknown: await picker.locator(".s2bp-unknown").textContent(),
  });
  const steps = { opened: await state() };

  await picker.locator("[data-group=hair]").click();
  steps.group = await state();
  await picker.locator("path[data-part=Left_Hand]").click();
  steps.figure = await state();

  await picker.locator(".s2bp-search").fill("shirt");
  steps.searched = await picker.locator(".s2bp-row:visible").evaluateAll((rows) => rows.map((r) => r.dataset.part));
  await picker.locator(".s2bp-search").fill("xyzzy");
  steps.searchedInVain = await picker.locator(".s2bp-nothing").innerText();
  await picker.locator(".s2bp-search").fill("shirt");
  await picker.locator(".s2bp-search").press("ArrowDown");
  await page.keyboard.press("Space"); // takes the shirt off the clothes
  steps.keyboard = await state();
  await picker.locator(".s2bp-search").fill("");

  steps.typed = [];
  for (const typed of task.typed) {
    await text.fill(typed);
    steps.typed.push(await state());
  }

  await text.fill(task.parts);
  await page.evaluate(() => app.queuePrompt(0));
  await picker.locator(".s2bp-found").first().waitFor();
  steps.shares = await picker
    .locator(".s2bp-found")
    .evaluateAll((rows) => rows.map((row) => [row.dataset.part, row.querySelector(".s2bp-share").textContent]));
  // Saved pictures are shown on their nodes: by the canvas, or as elements.
  const previews = await page.waitForFunction(() => {
    const shown = app.graph.nodes
      .filter((node) => node.type === "SaveImage")
      .map((node) => node.imgs?.[0] ?? document.querySelector(`[data-node-id="${node.id}"] img`));
    return shown.every((picture) => picture?.naturalWidth) && shown.map((picture) => picture.naturalWidth);
  });
  steps.previews = await previews.jsonValue();
  await shot(`picker-${task.vue ? "vue" : "classic"}`);
  return steps;
}).catch((error) => {
  console.error(error);
  process.exit(1);
});

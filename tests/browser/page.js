// Opens ComfyUI's page for a script, and prints what the script returns. The task comes as JSON on standard input.

const fs = require("fs");
const path = require("path");
const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"];

exports.onPage = async function (script) {
  const task = JSON.parse(fs.readFileSync(0, "utf8"));
  const browser = await chromium.launch({ executablePath: task.browser, args: FLAGS });
  try {
    const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
    page.setDefaultTimeout(60_000);
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    // A new visitor is shown templates first.
    const seen = new URL("api/settings/Comfy.TutorialCompleted", task.address);
    await fetch(seen, { method: "POST", body: "true", headers: { "Content-Type": "application/json" } });
    await page.goto(task.address, { waitUntil: "networkidle" });
    await page.waitForFunction(() => window.app?.graph && window.app.extensionManager?.setting && window.LiteGraph);
    await page.waitForFunction(() => "Sapiens2LoadModel" in LiteGraph.registered_node_types);

    const open = async (graph) => {
      await page.evaluate((graph) => app.loadGraphData(graph, true, true), graph);
      await page.waitForFunction((count) => app.graph.nodes.length === count, graph.nodes.length);
    };
    const shot = async (name) => {
      if (!process.env.SCREENSHOTS) return;
      await page.screenshot({ path: path.join(process.env.SCREENSHOTS, `${name}.png`) });
    };
    const result = await script({ page, task, open, shot });
    process.stdout.write(JSON.stringify({ ...result, errors }));
  } finally {
    await browser.close();
  }
};

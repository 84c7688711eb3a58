// Starts the language server `dsl server`, and shows what it says. Without it, colours and indentation stay.
"use strict";

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
    const [command, ...args] = workspace.getConfiguration("tile").get("server.command");
    if (!command) {
        return; // an empty list switches it off
    }
    const selector = [
        { scheme: "file", language: "tile" },
        { scheme: "untitled", language: "tile" },
    ];
    client = new LanguageClient("tile", "tile", { command, args }, { documentSelector: selector });
    try {
        await client.start();
    } catch (error) {
        client = undefined;
        window.showWarningMessage(
            `tile: '${[command, ...args].join(" ")}' does not start (${error.message}). ` +
                "Install it by pip install 'dsl[server]', or name it in the setting tile.server.command.",
        );
    }
}

async function stop() {
    const running = client;
    client = undefined;
    await running?.stop();
}

async function restart() {
    await stop();
    await start();
}

async function activate(context) {
    context.subscriptions.push(
        commands.registerCommand("tile.restartServer", restart),
        workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("tile.server") && restart()),
    );
    await start();
}

module.exports = { activate, deactivate: stop };

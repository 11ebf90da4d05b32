"""Chromium, headless, steered over a pipe by its DevTools protocol: no package is needed for it."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        to_browser, self.writes = os.pipe()
        self.reads, from_browser = os.pipe()

        def pipes_at_3_and_4():  # where the browser looks for them; moved away first, for they may lie there crosswise
            ends = os.dup(to_browser), os.dup(from_browser)
            for number, end in enumerate(ends, start=3):
                os.dup2(end, number)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
             "--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={self.profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes_at_3_and_4)
        os.close(to_browser), os.close(from_browser)
        self.received, self.events, self.sent, self.session = b"", [], 0, None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def message(self, seconds=60):
        until = time.monotonic() + seconds
        while b"\0" not in self.received:
            if not select.select([self.reads], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser has said nothing for {seconds} s")
            part = os.read(self.reads, 1 << 20)
            if not part:
                raise EOFError(f"the browser ended with {self.process.wait()}")
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

    def send(self, method, **params):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, address):
        """Returns when the page and what it shows are loaded."""
        self.events.clear()
        self.send("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def ask(self, expression):
        """The value of a JavaScript expression, awaited."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self):
        """What the console has said since the page was opened, and what was asked of the network."""
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield params["exceptionDetails"].get("exception", {}).get("description") or params["exceptionDetails"]["text"]
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                yield str(params["args"])
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                yield params["entry"]["text"] + " " + params["entry"].get("url", "")
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:", "blob:")):
                yield "asks for " + params["request"]["url"]

    def close(self):
        self.session = None
        try:
            self.send("Browser.close")
        except (EOFError, OSError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.reads), os.close(self.writes)
        shutil.rmtree(self.profile, ignore_errors=True)

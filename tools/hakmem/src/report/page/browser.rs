// SPDX-License-Identifier: MIT
//! Chromium without a window, spoken to over two descriptors (--remote-debugging-pipe), for tests of the page.

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const NAMES: [&str; 4] = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Browser {
    child: Child,
    data: PathBuf,
    to: UnixStream,
    from: BufReader<UnixStream>,
    session: String,
    number: u64,
    /// What it told unasked.
    pub events: Vec<Value>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// None, and a line that says so: there is no Chromium.
pub fn start(name: &str) -> Option<Browser> {
    let program = NAMES.iter().find_map(|name| crate::program::which(Path::new(name)).ok());
    let Some(program) = program else {
        crate::output::remark("skipped: the page in a browser: there is no chromium");
        return None;
    };
    let data = std::env::temp_dir().join(format!("hakmem-browser-{name}-{}", std::process::id()));
    let (to, its_input) = UnixStream::pair().unwrap();
    let (from, its_output) = UnixStream::pair().unwrap();
    from.set_read_timeout(Some(PATIENCE)).unwrap();
    let (input, output) = (its_input.as_raw_fd(), its_output.as_raw_fd());
    let mut command = Command::new(program);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--disable-dev-shm-usage"]);
    command.arg(format!("--user-data-dir={}", data.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: fcntl and dup2 may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let (input, output) = (libc::fcntl(input, libc::F_DUPFD, 10), libc::fcntl(output, libc::F_DUPFD, 10));
            let done = libc::dup2(input, 3) == 3 && libc::dup2(output, 4) == 4;
            done.then_some(()).ok_or_else(std::io::Error::last_os_error)
        });
    }
    let child = command.spawn().unwrap();
    let from = BufReader::new(from);
    let mut browser = Browser { child, data, to, from, session: String::new(), number: 0, events: Vec::new() };
    let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
    let attached = browser.ask("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
    browser.session = attached["sessionId"].as_str().unwrap().to_string();
    for domain in ["Page", "Network", "Runtime", "Log"] {
        browser.ask(&format!("{domain}.enable"), json!({}));
    }
    Some(browser)
}

impl Browser {
    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("chromium answers");
        bytes.pop();
        serde_json::from_slice(&bytes).expect("chromium has ended")
    }

    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(&[message.to_string().as_bytes(), b"\0"].concat()).unwrap();
        loop {
            let answer = self.message();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    pub fn window(&mut self, width: u32, is_dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", features);
    }

    pub fn open(&mut self, path: &Path) {
        self.events.clear();
        self.ask("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.message();
            self.events.push(event);
        }
    }

    pub fn evaluate(&mut self, script: &str) -> Value {
        let answer = self.ask("Runtime.evaluate", json!({"expression": script, "returnByValue": true}));
        assert!(answer["exceptionDetails"].is_null(), "{script}: {answer}");
        answer["result"]["value"].clone()
    }

    /// One of `Performance.getMetrics`.
    pub fn metric(&mut self, name: &str) -> f64 {
        let answer = self.ask("Performance.getMetrics", json!({}));
        let metrics = answer["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == name).unwrap()["value"].as_f64().unwrap()
    }

    pub fn screenshot(&mut self, path: &Path) {
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.ask("Page.captureScreenshot", whole);
        std::fs::write(path, picture["data"].as_str().unwrap()).unwrap();
    }

    /// Errors on its console, and requests for anything but `own`.
    pub fn complaints(&self, own: &str) -> Vec<String> {
        let complaint = |event: &Value| match event["method"].as_str()? {
            "Runtime.exceptionThrown" => Some(event.to_string()),
            "Runtime.consoleAPICalled" if event["params"]["type"] == "error" => Some(event.to_string()),
            "Log.entryAdded" if event["params"]["entry"]["level"] == "error" => Some(event.to_string()),
            "Network.requestWillBeSent" => {
                let url = event["params"]["request"]["url"].as_str()?;
                (!url.ends_with(own)).then(|| format!("asks for {url}"))
            }
            _ => None,
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

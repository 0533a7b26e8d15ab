// SPDX-License-Identifier: MIT
//! The page in Chromium: no error, no request, search and zoom work, and nothing is wider than a phone.

use super::browser::{self, Browser};
use crate::image::fixture::{Block, Fixture};
use crate::image::{from_bytes, Figures, Profile};
use crate::report::growth::tests::a_service;
use crate::symbols;
use std::path::{Path, PathBuf};

/// With 10,000 sites it takes 0.23 s of a processor (2 cores, Chromium of Debian 12).
const SECONDS_MAX: f64 = 3.0;
/// No table is shown whole that has hundreds of rows.
const HEIGHT_MAX: u64 = 16_000;

fn with_figures(fixture: &Fixture) -> Profile {
    let mut profile = from_bytes(&fixture.bytes(), Path::new("process 42 (service)")).unwrap();
    profile.figures = Some(Figures {
        resident: 5 << 20,
        live: 2 << 20,
        cached: 1 << 20,
        fragmented: 1 << 20,
        retained: 1 << 19,
        metadata: 1 << 19,
        given_back: 9 << 20,
        ..Figures::default()
    });
    profile
}

fn many() -> Fixture {
    let mut fixture = Fixture::new(0);
    for number in 0..10_000u64 {
        let frames: Vec<u64> = (0..24).map(|depth| 0x10000 * depth + (number >> (depth / 2)) % 997 + 0x1000).collect();
        let stack = fixture.stack(&frames);
        fixture.block(Block { stack, size: 16 + number % 4000, time_us: number * 1000, ..Block::default() });
    }
    fixture
}

fn one() -> Fixture {
    let mut fixture = Fixture::new(19);
    let stack = fixture.stack(&[0x1000]);
    fixture.block(Block { stack, size: 100, ..Block::default() });
    fixture
}

struct Page(PathBuf);

impl Page {
    fn of(name: &str, profile: &Profile) -> Page {
        let path = std::env::temp_dir().join(format!("hakmem-page-{name}-{}.html", std::process::id()));
        std::fs::write(&path, super::write(profile, &symbols::none(profile)).unwrap()).unwrap();
        Page(path)
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap().to_string_lossy().into_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Processor time of the page's thread, which a busy machine does not lengthen by much.
fn opens_soon(browser: &mut Browser, page: &Page) {
    browser.ask("Performance.enable", serde_json::json!({"timeDomain": "threadTicks"}));
    let before = browser.metric("TaskDuration");
    browser.open(&page.0);
    let seconds = browser.metric("TaskDuration") - before;
    assert!(seconds < SECONDS_MAX, "{seconds} s to open {}", page.name());
    assert!(seconds > 0.0, "it is not measured");
}

fn opens_everywhere(browser: &mut Browser, page: &Page) {
    for (width, is_dark) in [(390, false), (390, true), (1280, true), (1280, false)] {
        browser.window(width, is_dark);
        browser.open(&page.0);
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= width.into(), "{} is {wide} wide on {width}", page.name());
        let high = browser.evaluate("document.documentElement.scrollHeight").as_u64().unwrap();
        assert!(high < HEIGHT_MAX, "{} is {high} high on {width}", page.name());
        let hidden = browser.evaluate("[...document.querySelectorAll('.place')].filter((cell) => cell.getBoundingClientRect().right > innerWidth).length");
        assert_eq!(hidden, 0, "sites of {} lie beyond the edge at {width}", page.name());
        assert_ne!(browser.evaluate("document.querySelectorAll('#graph div').length"), 0);
        assert_eq!(browser.complaints(&page.name()), Vec::<String>::new());
        if let Some(folder) = std::env::var_os("HAKMEM_SCREENSHOTS") {
            let name = format!("{}-{width}-{}.base64", page.name(), if is_dark { "dark" } else { "light" });
            browser.screenshot(&Path::new(&folder).join(name));
        }
    }
}

#[test]
fn it_opens_at_each_width_in_light_and_dark() {
    let Some(mut browser) = browser::start("opens") else { return };
    for (name, profile) in [("one", with_figures(&one())), ("service", with_figures(&a_service()))] {
        opens_everywhere(&mut browser, &Page::of(name, &profile));
    }
    let service = from_bytes(&a_service().bytes(), Path::new("heap.42")).unwrap();
    opens_everywhere(&mut browser, &Page::of("file", &service));
}

#[test]
fn it_opens_with_ten_thousand_sites() {
    let Some(mut browser) = browser::start("many") else { return };
    let profile = with_figures(&many());
    assert_eq!(profile.real_sites().count(), 10_000);
    let page = Page::of("many", &profile);
    opens_soon(&mut browser, &page);
    opens_everywhere(&mut browser, &page);
    assert_eq!(browser.evaluate("document.querySelectorAll('#sitetable tbody tr').length"), 50);
    browser.evaluate("document.querySelector('#sites .more').click()");
    assert_eq!(browser.evaluate("document.querySelectorAll('#sitetable tbody tr').length"), 300);
    assert!(browser.evaluate("document.querySelectorAll('#graph div').length").as_u64().unwrap() < 20_000);
}

#[test]
fn search_zoom_and_sorting_work() {
    let Some(mut browser) = browser::start("search") else { return };
    let page = Page::of("search", &with_figures(&a_service()));
    browser.window(1280, false);
    browser.open(&page.0);
    browser.evaluate("function boxes() { return [...document.querySelectorAll('#graph div')] }");
    browser.evaluate("function box(name) { return boxes().find((box) => box.title.startsWith(name + ':')) }");
    let rows = "document.querySelectorAll('#sitetable tbody tr').length";
    let wide = "box('0x2fff').offsetWidth / document.getElementById('graph').clientWidth";
    assert_eq!(browser.evaluate(rows), 4);
    assert!(browser.evaluate(wide).as_f64().unwrap() < 0.5);
    browser.evaluate("box('0x2fff').click()");
    assert!(browser.evaluate(wide).as_f64().unwrap() > 0.98, "it takes the width");
    assert_eq!(browser.evaluate("box('all').className"), "above");
    assert_eq!(browser.evaluate("document.getElementById('reset').disabled"), false);
    browser.evaluate("document.getElementById('reset').click()");
    assert!(browser.evaluate(wide).as_f64().unwrap() < 0.5);

    let search = "(() => { const field = document.getElementById('search'); field.value = '0xFFF'; field.dispatchEvent(new Event('input')) })()";
    browser.evaluate(search);
    assert_eq!(browser.evaluate("document.querySelectorAll('#graph div.hit').length"), 1);
    assert_eq!(browser.evaluate(rows), 1);
    assert!(browser.evaluate("document.getElementById('found').textContent").as_str().unwrap().starts_with("40.0 KiB"));
    browser.evaluate("document.getElementById('reset').click()");
    assert_eq!(browser.evaluate(rows), 4);

    let first = "document.querySelector('#sitetable tbody tr td').textContent";
    assert_eq!(browser.evaluate(first), "976.6 KiB");
    browser.evaluate("document.querySelector('#sitetable th button').click()");
    assert_eq!(browser.evaluate(first), "0 B");
    browser.evaluate("const show = document.getElementById('measure'); show.value = 'alloc'; show.dispatchEvent(new Event('change'))");
    assert!(browser.evaluate("box('all').title").as_str().unwrap().contains("MiB"));
    assert_eq!(browser.complaints(&page.name()), Vec::<String>::new());
}

// SPDX-License-Identifier: MIT
//! docs/benchmarks.md and the figures block of README.md, both from a result folder.

use super::charts;
use super::figures::{mean_ratio, short, Line};
use super::model::{Kind, Results, OURS};
use super::program_table;
use super::table;
use anyhow::{bail, Context, Result};
use std::path::Path;

/// The blocks of README.md: that of a run of all rows, and that of a run of real programs.
const FIGURES: &str = "figures";
const PROGRAMS: &str = "programs";

const COLUMNS: usize = 120;

const METHOD: &str = "\
Every figure is the median of the rounds. In a round all allocators take turns; each round has another order. A row that did \
not get all rounds is named in the remarks with the reason. Before a run counts, the program proves by `dladdr` which library \
its `malloc`, `free` and `operator new` come from. Rows that time nothing (memory after a rest, counted instructions) do not \
depend on the machine's load, so as many allocators run side by side as there are cores.

A virtual machine's host takes back memory that the guest does not use, and a page that it has to find again faults ten times \
slower. So the runner touches and gives back, by huge pages, as much memory as a row needs before each round of it. A host that \
is told of free pages takes huge ones back within seconds; the changing order of the rounds spreads that over all allocators.

A run is repeated when the machine worked on something else for more than 15 % of a core, and marked if that does not help: `~` \
marks figures most of whose runs shared the machine. The load at the start is the kernel's average of the minutes before the \
run, in which the loads and the other allocators were built.

Memory is the peak that the kernel reports, taken by a launcher smaller than any program measured, and what `smaps_rollup` says \
(RSS, PSS and LazyFree apart). Every load reads it in every run right after its timed part. Programs, and loads with large \
heaps, have one more round, which is not timed and samples memory while they run; rows that time nothing are sampled in every \
round.

Some loads end after a fifth or a quarter of a second: an allocator a thousand times slower than the others then does less of \
the load. Figures of these are per operation. Bold is the best of a row and whatever cannot be told from it (Mann-Whitney, \
p > 0.05, or less than 1 % apart). Instruction counts come from callgrind, in one round, because they repeat exactly.";

pub fn write_docs(results: &Results, folder: &Path, root: &Path) -> Result<()> {
    let name = match program_table::is_about_programs(results) {
        true => "docs/benchmarks-programs.md",
        false => "docs/benchmarks.md",
    };
    std::fs::create_dir_all(root.join("docs")).context("cannot make docs")?;
    std::fs::write(root.join(name), page(results, &shown_folder(folder, root)?))
        .with_context(|| format!("cannot write {name}"))
}

/// The result folder as seen from the root of the repository, where the links of the pages lead.
fn shown_folder(folder: &Path, root: &Path) -> Result<String> {
    let absolute = folder.canonicalize().with_context(|| format!("{} is not there", folder.display()))?;
    match absolute.strip_prefix(root.canonicalize()?) {
        Ok(inside) => Ok(inside.to_string_lossy().into_owned()),
        Err(_) => bail!("{} lies outside the repository, so nothing can link to it", folder.display()),
    }
}

/// Paragraphs of one line each, with lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let paragraph = |line: &str| {
        let mut lines = vec![String::new()];
        for word in line.split_whitespace() {
            let last = lines.last_mut().expect("never empty");
            match last.chars().count() {
                0 => *last += word,
                width if width + 1 + word.chars().count() <= COLUMNS => *last += &format!(" {word}"),
                _ => lines.push(word.into()),
            }
        }
        lines.join("\n") + "\n"
    };
    text.lines().map(paragraph).collect()
}

fn page(results: &Results, folder: &str) -> String {
    let mut text =
        format!("# Benchmarks\n\n<!-- Written by `hakmem bench --docs {folder}`; edit that, not this. -->\n\n");
    text += &wrapped(&format!(
        "Run of {} ({} suite, {} rounds). Raw data of every run, medians as CSV and the charts: [`{folder}`](../{folder}/).\n\n",
        results.date, results.suite, results.rounds
    ));
    text += &wrapped(&format!("## Method\n\n{METHOD}\n\n"));
    text += "<!-- not run (make bench*): up to an hour -->\n<!-- not run (hakmem bench *): as the one before -->\n";
    text += "Run it yourself: `make bench`, `make bench-quick`, or `hakmem bench -- your-program its arguments`.\n\n";
    text += &machine(results);
    for chart in charts::all(results) {
        text += &format!("![{}](../{folder}/charts/{}.svg)\n\n", chart.title, chart.name);
    }
    for (title, kinds) in [
        ("Speed and latency", &[Kind::Speed, Kind::Latency][..]),
        ("Memory", &[Kind::Memory]),
        ("Beside time and peak: smaps, processor time, page faults", &[Kind::Beside]),
        ("Instructions", &[Kind::Instructions]),
    ] {
        text += &section(results, title, kinds);
    }
    text + &format!("## Remarks\n\n```\n{}```\n", table::remarks(results))
}

fn machine(results: &Results) -> String {
    let mut text = String::from("## Machine and allocators\n\n| | |\n|---|---|\n");
    for (key, value) in &results.machine {
        text += &format!("| {key} | {value} |\n");
    }
    text += "\n| Allocator | Version | Notes |\n|---|---|---|\n";
    for a in &results.allocators {
        let environment: Vec<String> = a.environment.iter().map(|(k, v)| format!("`{k}={v}`")).collect();
        let missing = a.missing.as_deref().map(|m| format!("missing: {m}")).unwrap_or_default();
        let notes: Vec<String> =
            [environment.join(" "), a.note.clone(), missing].into_iter().filter(|n| !n.is_empty()).collect();
        text += &format!("| {} | {} | {} |\n", a.name, a.version, notes.join("; "));
    }
    text + "\n"
}

/// A table for each group of rows, and the mean under them.
fn section(results: &Results, title: &str, kinds: &[Kind]) -> String {
    let lines = table::lines_of(results, kinds);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("## {title}\n\n");
    let mut groups: Vec<&str> = Vec::new();
    for line in &lines {
        if !groups.contains(&line.row.group.as_str()) {
            groups.push(&line.row.group);
        }
    }
    for group in groups {
        let of_group: Vec<Line> = lines.iter().filter(|l| l.row.group == group).copied().collect();
        text += &format!("### {group}\n\n{}\n", table::markdown(results, &of_group));
    }
    match kinds {
        [Kind::Beside] => text,
        _ => text + &means(results, &lines),
    }
}

fn means(results: &Results, lines: &[Line]) -> String {
    let mut text = String::from("Geometric mean of the rows above, cost over the best peer's:\n\n");
    for a in &results.allocators {
        if let Some((mean, rows)) = mean_ratio(results, lines, &a.name, |l| l.best_peer(results).map(|b| b.1)) {
            text += &format!("* {}: {} over {rows} rows\n", a.name, short(mean));
        }
    }
    text + "\n"
}

pub fn write_readme(results: &Results, folder: &Path, root: &Path) -> Result<()> {
    let path = root.join("README.md");
    let text = std::fs::read_to_string(&path).context("there is no README.md")?;
    let folder = shown_folder(folder, root)?;
    let (name, block) = match program_table::is_about_programs(results) {
        true => (PROGRAMS, wrapped_prose(&program_table::block(results, &folder))),
        false => (FIGURES, readme_block(results, &folder)),
    };
    std::fs::write(&path, replace_block(&text, name, &block)?).context("cannot write README.md")
}

/// The first paragraph wrapped; the table below it stays as it is.
fn wrapped_prose(text: &str) -> String {
    let (prose, table) = text.split_once("\n\n").unwrap_or((text, ""));
    format!("{}\n{table}", wrapped(prose))
}

fn replace_block(text: &str, name: &str, block: &str) -> Result<String> {
    let (begins, ends) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let (Some(begin), Some(end)) = (text.find(&begins), text.find(&ends)) else {
        bail!("README.md has no {begins} and {ends}")
    };
    if end < begin {
        bail!("README.md has {ends} before {begins}");
    }
    Ok(format!("{}{begins}\n{block}{}", &text[..begin], &text[end..]))
}

/// The mean of an allocator's rows over the best peer of each, with their number.
fn standing(results: &Results, kinds: &[Kind], name: &str) -> Option<(f64, usize)> {
    let lines = table::lines_of(results, kinds);
    mean_ratio(results, &lines, name, |l| l.best_peer(results).map(|b| b.1))
}

fn readme_block(results: &Results, folder: &str) -> String {
    let mut text = format!("![Time and memory of each allocator]({folder}/charts/overview.svg)\n\n");
    text += &wrapped(&how_to_read(results));
    text += "| Allocator | Time | Memory |\n|---|---:|---:|\n";
    let mean = |kinds: &[Kind], name: &str| {
        standing(results, kinds, name).map_or("-".to_string(), |(m, n)| format!("{} ({n} rows)", short(m)))
    };
    for a in results.allocators.iter().filter(|a| a.missing.is_none()) {
        let name = if a.name == OURS {
            format!("**{OURS}**")
        } else {
            format!("{} {}", a.name, a.version.split('-').next().unwrap_or_default())
        };
        text += &format!("| {name} | {} | {} |\n", mean(&[Kind::Speed], &a.name), mean(&[Kind::Memory], &a.name));
    }
    let cores = results.machine.get("cores").map_or("?", String::as_str);
    text + &wrapped(&format!(
        "\n{} suite of {} on {cores} cores. [Every row, also the lost ones](docs/benchmarks.md), [raw data]({folder}).\n",
        capitalised(&results.suite),
        results.date
    ))
}

/// Another peer is the best in each row, so that even the first allocator of all has more than 1.
fn how_to_read(results: &Results) -> String {
    let peers = || results.allocators.iter().filter(|a| a.missing.is_none() && a.name != OURS);
    let best = |what: &str, kinds: &[Kind]| {
        let means = peers().filter_map(|a| Some((standing(results, kinds, &a.name)?.0, &a.name)));
        let (mean, name) = means.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!("{name} with {} in {what}", short(mean)))
    };
    let best: Vec<String> =
        [best("time", &[Kind::Speed]), best("memory", &[Kind::Memory])].into_iter().flatten().collect();
    format!(
        "A figure is an allocator's time or memory over that of the best of the {} others in the same row, as the geometric \
         mean of all rows. Less is better. The best is not the same allocator in each row; over all rows the first of the \
         others is {}.\n\n",
        peers().count(),
        best.join(", ")
    )
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::sample_results;

    #[test]
    fn the_block_is_replaced_and_nothing_else() {
        let text = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n";
        let new = "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb\n";
        assert_eq!(replace_block(text, "x", "new\n").unwrap(), new);
        assert!(replace_block(text, "y", "new\n").is_err());
        assert!(replace_block("no markers", "x", "x").is_err());
        assert!(replace_block("<!-- x:end --><!-- x:begin -->", "x", "x").is_err());
    }

    #[test]
    fn prose_is_wrapped() {
        let text = format!("a\n\n{}\n", "word ".repeat(30));
        assert_eq!(wrapped(&text), format!("a\n\n{}\n{}\n", ["word"; 24].join(" "), ["word"; 6].join(" ")));
    }

    #[test]
    fn results_must_lie_inside_the_repository() {
        let outside = shown_folder(Path::new("/"), &std::env::temp_dir());
        assert!(outside.unwrap_err().to_string().contains("outside the repository"));
    }

    #[test]
    fn the_page_shows_every_row_and_why_some_are_missing() {
        let page = page(&sample_results(), "bench/results/x");
        assert!(page.contains("| r | Mops/s | **100** |") && page.contains("missing: not built"), "{page}");
        let block = readme_block(&sample_results(), "x").replace('\n', " ");
        assert!(block.contains("| **hakmem** |"), "{block}");
        assert!(block.contains("the best of the 1 others in the same row"), "{block}");
        assert!(block.contains("the first of the others is jemalloc with 1.00 in time."), "{block}");
    }
}

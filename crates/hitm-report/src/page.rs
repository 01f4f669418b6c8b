//! A report as one HTML file: pictures, tables and their data, without anything from a network.
//!
//! The file has the data once, as JSON, and the scripts of `page/assets`, which draw from it. No script
//! computes a figure that the data has not: it adds up what it shows together and formats by unit. A
//! Content-Security-Policy lets the page run its own script only, by its hash, and ask for nothing.
//!
//! Names are hostile. In the data they are printable, and `<` is escaped, so that no name ends the script
//! element; scripts write text, never markup.

mod compare;
mod data;
mod policy;
mod review;
mod sim;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hitm_coherence::sharing::Verdict;
use serde_json::{Value, json};

pub use compare::{diff, whatif};
pub use review::review;
pub use sim::{reproduction, simulation};
pub use sweep::sweep;

use crate::glossary;
use crate::pictures::Pictures;
use crate::screen::Excerpt;
use crate::{Report, SourceLine};

/// Version of the page's data; docs/formats/page.md describes it.
pub const PAGE_SCHEMA: u32 = 1;

/// Styles, for screens of any width and paper. A comment stands for the marks of verdicts.
const STYLE: &str = include_str!("page/assets/page.css");

/// Scripts, each with one job, in the order of their needs.
const SCRIPTS: [&str; 22] = [
    include_str!("page/assets/dom.js"),
    include_str!("page/assets/words.js"),
    include_str!("page/assets/format.js"),
    include_str!("page/assets/colour.js"),
    include_str!("page/assets/figure.js"),
    include_str!("page/assets/table.js"),
    include_str!("page/assets/linemap.js"),
    include_str!("page/assets/layout.js"),
    include_str!("page/assets/matrix.js"),
    include_str!("page/assets/flame.js"),
    include_str!("page/assets/time.js"),
    include_str!("page/assets/charts.js"),
    include_str!("page/assets/findings.js"),
    include_str!("page/assets/sources.js"),
    include_str!("page/assets/markdown.js"),
    include_str!("page/assets/report.js"),
    include_str!("page/assets/axes.js"),
    include_str!("page/assets/plots.js"),
    include_str!("page/assets/sweep.js"),
    include_str!("page/assets/sim.js"),
    include_str!("page/assets/review.js"),
    include_str!("page/assets/page.js"),
];

/// Advice on a structure, for the lines that it is on.
#[derive(Debug, Clone, PartialEq)]
pub struct LineAdvice {
    /// Ranks of the lines.
    pub ranks: Vec<u64>,
    /// The structure.
    pub type_name: String,
    /// The advice as docs/formats/advice.md has it, or why there is none.
    pub advice: Result<Value, String>,
}

impl LineAdvice {
    fn json(&self) -> Value {
        match &self.advice {
            Ok(advice) => json!({ "ranks": self.ranks, "advice": advice }),
            Err(why) => json!({ "ranks": self.ranks, "type": self.type_name, "problem": why }),
        }
    }
}

/// A source line that loses much.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePart {
    /// The line.
    pub line: SourceLine,
    /// The text around it, where it can be read.
    pub text: Option<Excerpt>,
}

/// The page of a report.
pub fn report(
    report: &Report,
    pictures: &Pictures,
    advice: &[LineAdvice],
    sources: &[SourcePart],
) -> String {
    let mut page = json!({
        "schema": PAGE_SCHEMA,
        "kind": "report",
        "title": report.title(),
    });
    page["report"] = data::report(report);
    page["pictures"] = data::pictures(pictures);
    page["advice"] = advice.iter().map(LineAdvice::json).collect();
    page["sources"] = data::sources(report, sources);
    html(page)
}

/// The styles with a rule for each colour of verdicts.
fn style() -> String {
    let mut marks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for verdict in Verdict::ALL {
        let facts = verdict.facts();
        if let Some(color) = facts.color {
            let mark = format!(".verdict.{}", facts.id);
            marks.entry(color).or_default().push(mark);
        }
    }
    let rules = marks.iter().map(|(color, marks)| {
        let marks = marks.join(", ");
        format!("{marks} {{ border-color: var(--{color}); color: var(--{color}); }}\n")
    });
    STYLE.replace("/* verdicts */\n", &rules.collect::<String>())
}

/// The file around the data of a page, which has a `title`.
fn html(mut page: Value) -> String {
    page["glossary"] = glossary::json();
    let page = data::shown(page);
    let title = page["title"].as_str().unwrap_or("hitm");
    let script = format!("(() => {{\n'use strict';\n{}}})();\n", SCRIPTS.concat());
    let data = embedded(&page);
    let style = style();
    let policy = policy::of(&script, &style);
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n\
         <style>{style}</style>\n\
         </head>\n\
         <body>\n\
         <noscript><p>This page draws its pictures with a script of its own, which is switched off here. \
         <code>hitm report</code> prints the same as text.</p></noscript>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{script}</script>\n\
         </body>\n\
         </html>\n",
        markup(title),
    )
}

/// JSON for a script element: nothing in it ends the element or opens a comment.
fn embedded(page: &Value) -> String {
    // In JSON these characters occur in strings only.
    let json = page.to_string();
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e");
    json.replace('&', "\\u0026")
}

/// Text for markup.
fn markup(text: &str) -> String {
    let text = hitm_base::printable(text).replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

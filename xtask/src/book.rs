//! `cargo xtask docs`: the guide as a book, by mdBook.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::tidy::resolved;
use crate::{output, root, run, target, text};

const LINK: &str = "<a href=\"";
const LINK_END: &str = "</a>";

/// Builds `target/book`, with an mdBook that it installs below target/ where there is none.
pub fn build() -> Result<()> {
    let mdbook = mdbook()?;
    run(&mdbook, &["build", "docs"])?;
    let book = root().join("target/book");
    let mut problems = Vec::new();
    for page in pages(&book)? {
        let html = fs::read_to_string(&page)?;
        let inside = page.strip_prefix(&book)?;
        let exists = |path: &str| book.join(path).exists();
        let linked = checked(&html, text(inside)?, &exists);
        problems.extend(linked.missing.iter().map(|link| {
            let page = inside.display();
            format!("{page} links to {link}, which the book has not")
        }));
        fs::write(&page, linked.html)?;
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// The program mdBook: the one in PATH, or the one below target/.
fn mdbook() -> Result<String> {
    if output("mdbook", &["--version"]).is_ok() {
        return Ok("mdbook".to_owned());
    }
    let tools = target().join("tools");
    let program = tools.join("bin/mdbook");
    if !program.exists() {
        println!(
            "no mdbook in PATH: installing it into {}, minutes",
            tools.display()
        );
        let install = ["install", "--quiet", "--locked", "--root", text(&tools)?];
        run("cargo", &[&install[..], &["mdbook"]].concat())
            .context("cannot install mdBook; `cargo install mdbook` says more")?;
    }
    Ok(text(&program)?.to_owned())
}

/// Paths of all HTML files below a folder.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages.extend(self::pages(&path)?);
        } else if path.extension().is_some_and(|name| name == "html") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// A page whose links were looked at.
#[derive(Debug, PartialEq, Eq)]
struct Linked {
    /// The page. Links that leave the book, to sources and programs, are text.
    html: String,
    /// Links into the book that lead nowhere.
    missing: Vec<String>,
}

/// Checks the links of the book's page at `page`.
fn checked(html: &str, page: &str, exists: &dyn Fn(&str) -> bool) -> Linked {
    let mut linked = Linked {
        html: String::with_capacity(html.len()),
        missing: Vec::new(),
    };
    let mut rest = html;
    while let Some(start) = rest.find(LINK) {
        let target = &rest[start + LINK.len()..];
        let Some(quote) = target.find('"') else {
            break;
        };
        let target = &target[..quote];
        let path = target.split(['#', '?']).next().unwrap_or_default();
        let is_local = !path.is_empty() && !path.contains(':');
        let inside = is_local.then(|| resolved(page, path));
        if inside == Some(None)
            && let Some((replaced, behind)) = without_link(&rest[start..])
        {
            linked.html.push_str(&rest[..start]);
            linked.html.push_str(replaced);
            rest = behind;
            continue;
        }
        if let Some(Some(path)) = inside
            && !exists(&path)
        {
            linked.missing.push(target.to_owned());
        }
        let (before, behind) = rest.split_at(start + LINK.len());
        linked.html.push_str(before);
        rest = behind;
    }
    linked.html.push_str(rest);
    linked
}

/// The content of the link that `html` begins with, and what is behind it.
fn without_link(html: &str) -> Option<(&str, &str)> {
    let (_, content) = html.split_once('>')?;
    content.split_once(LINK_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_are_text_and_dead_ones_are_found() {
        let html = "<p><a href=\"../place.html#undo\">place</a>, <a href=\"../../xtask/src/lib.rs\">\
                    <code>lib.rs</code></a>, <a href=\"https://a.b/c\">c</a>, <a href=\"#top\">top</a>\
                    <a href=\"gone.html\">gone</a></p>";
        let exists = |path: &str| path == "place.html";
        let linked = checked(html, "guide/install.html", &exists);
        let expected = html.replace(
            "<a href=\"../../xtask/src/lib.rs\"><code>lib.rs</code></a>",
            "<code>lib.rs</code>",
        );
        assert_eq!(linked.html, expected);
        assert_eq!(linked.missing, ["gone.html"]);
    }
}

use super::*;

/// Returns the text between the first `start` and the `end` after it.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let from = text.find(start).expect("the start") + start.len();
    let to = text[from..].find(end).expect("the end");
    &text[from..from + to]
}

#[test]
fn no_name_ends_the_script_or_acts_on_a_terminal() {
    let hostile =
        "</script><script>alert(1)</script><!-- <script \u{1b}[2J\u{9b}\u{202e}\u{2028} &lt; \"'";
    let mut page = data::shown(json!({
        "kind": "report",
        "title": format!("hitm report: </title>{hostile}"),
        "names": [{ "name": hostile }],
    }));
    let html = html(page.clone());
    assert_eq!(html.matches("<script").count(), 2, "data and script");
    assert_eq!(html.matches("</script").count(), 2);
    assert_eq!(html.matches("</title").count(), 1);
    assert!(!html.contains("<!--"));
    let acting = |c: char| c != '\n' && hitm_base::printable(&c.to_string()) != c.to_string();
    assert!(
        !html.contains(acting),
        "{:?}",
        html.matches(acting).collect::<Vec<_>>()
    );
    let data = between(&html, "id=\"data\">", "</script>");
    let read: Value = serde_json::from_str(data).expect("the data is JSON");
    page["glossary"] = glossary::json();
    assert_eq!(read, page);
    let shown =
        "</script><script>alert(1)</script><!-- <script \\x1b[2J\\u{9b}\\u{202e}\\u{2028} &lt; \"'";
    assert_eq!(read["names"][0]["name"], shown);
}

#[test]
fn scripts_write_text_only_and_ask_for_nothing() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "createContextualFragment",
        "document.write",
        "eval(",
        "new Function",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "sendBeacon",
        "import(",
        "https:",
        "</",
    ];
    for script in SCRIPTS {
        for word in forbidden {
            assert!(!script.contains(word), "a script has {word}");
        }
    }
    let of_http = |script: &&str| script.matches("http:").count();
    let namespaces: usize = SCRIPTS.iter().map(of_http).sum();
    assert_eq!(namespaces, 1, "the namespace of SVG");
    for word in ["url(", "@import", "</"] {
        assert!(!style().contains(word), "the style has {word}");
    }
}

#[test]
fn the_policy_admits_the_script_and_the_style_by_their_hashes() {
    let html = html(json!({ "title": "t", "kind": "report" }));
    let script = between(&html, "<script>", "</script>");
    let policy = policy::of(script, &style());
    assert!(html.contains(&policy));
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    assert_ne!(policy, policy::of(&format!("{script} "), &style()));
}

#[test]
fn nobody_reads_whose_home_it_was() {
    let [home, root] = ["/home", "/root"];
    let shown = |text: String| data::shown(json!({ "a": [text] }))["a"][0].clone();
    assert_eq!(shown(format!("{home}/ann/src/a.c:7 f")), "~/src/a.c:7 f");
    let command = format!("run -I{home}/ann/b {home}/bob/c");
    assert_eq!(shown(command), "run -I~/b ~/c");
    assert_eq!(shown(format!("\"{root}/a\" {root}/b")), "\"~/a\" ~/b");
    let others = format!("/var{root}/a, {home}/ ~/a");
    assert_eq!(shown(others.clone()), others.as_str());
    let title = format!("hitm report: {home}/ann/a");
    let html = html(json!({ "title": title, "kind": "report" }));
    assert!(html.contains("<title>hitm report: ~/a</title>"));
    assert!(!html.contains("/ann"));
}

//! The checkout keeps its own rules.

#[test]
fn the_checkout_is_tidy() {
    let problems = xtask::tidy::problems().expect("the checkout can be read");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

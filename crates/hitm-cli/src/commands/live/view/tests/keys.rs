//! The state after keys and new windows.

use super::windows::*;
use super::*;

#[test]
fn the_selected_row_stays_selected_while_the_order_changes() {
    let mut state = view_of([two_locks()], &[Key::Down]);
    let name = |state: &State| state.selected_lock().map(|view| view.lock.name.clone());
    assert_eq!(name(&state).as_deref(), Some("mmap_lock"));
    state.take(locks(
        vec![
            lock("mmap_lock", "process 100 (copy)", 900),
            lock("other", "", 50),
        ],
        &[],
    ));
    assert_eq!(name(&state).as_deref(), Some("mmap_lock"));
    assert_eq!(state.tabs[0].cursor.index, 0);
    // It is gone: the row at its place is selected, which there always is while there are rows.
    state.take(locks(vec![lock("other", "", 50)], &[]));
    assert_eq!(name(&state).as_deref(), Some("other"));
    state.take(locks(vec![], &[]));
    assert_eq!(name(&state), None);
    assert_eq!(state.key(Key::Down), Action::None);
}

#[test]
fn a_detail_keeps_the_last_figures_of_what_is_gone() {
    let mut state = view_of([two_locks()], &[Key::Enter]);
    state.take(locks(vec![], &[]));
    assert!(state.detail.as_ref().is_some_and(|detail| detail.is_gone));
    assert_eq!(
        state.selected_lock().map(|view| view.lock.waited_ns),
        Some(500 * MS)
    );
    state.take(two_locks());
    assert!(state.detail.as_ref().is_some_and(|detail| !detail.is_gone));
    assert_eq!(state.key(Key::Escape), Action::None);
    assert!(state.detail.is_none());
}

#[test]
fn keys_ask_for_work() {
    let mut state = view_of([two_locks()], &[]);
    let asked = |state: &mut State, key| state.key(key);
    assert_eq!(asked(&mut state, Key::Character('p')), Action::Place);
    assert_eq!(asked(&mut state, Key::Character('u')), Action::Undo);
    for key in [Key::Character('q'), Key::Escape, Key::Interrupt] {
        assert_eq!(asked(&mut state, key), Action::Quit);
    }
    // Escape leaves the help and a detail first; the help takes every other key.
    for key in [Key::Escape, Key::Character('p')] {
        assert_eq!(asked(&mut state, Key::Character('?')), Action::None);
        assert_eq!(asked(&mut state, key), Action::None);
        assert!(!state.has_help);
    }
    assert_eq!(asked(&mut state, Key::Tab), Action::None);
    assert_eq!(state.tab, 1);
    assert!(state.selected_lock().is_none());
}

#[test]
fn long_tables_scroll_with_the_selection() {
    let many = (0..100).map(|number| lock(&format!("lock {number}"), "", 1000 - number));
    let mut state = view_of([locks(many.collect(), &[])], &[]);
    let screen = |state: &mut State| drawn(state, Size::new(80, 24), false).to_string();
    assert!(screen(&mut state).contains("lock 0 "));
    state.key(Key::PageDown);
    assert!(screen(&mut state).contains("> ") && screen(&mut state).contains("lock 20 "));
    state.key(Key::End);
    let end = screen(&mut state);
    assert!(
        end.contains("lock 99 ") && !end.contains("lock 79 "),
        "{end}"
    );
    state.key(Key::Home);
    assert!(screen(&mut state).contains("lock 0 "));
    // A detail scrolls to its end and no further.
    state.key(Key::Enter);
    state.key(Key::End);
    assert!(screen(&mut state).contains("addresses") || screen(&mut state).contains("0xffff"));
    state.key(Key::Up);
    assert!(screen(&mut state).contains("0x") || state.detail.is_some());
}

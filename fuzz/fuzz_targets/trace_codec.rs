//! Records through a file and back, whole and damaged.
#![no_main]

use hitm_test::Choices;
use hitm_test::recording::{self, Collect};
use hitm_trace::{ReadError, Record, Recovery, TraceReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let damage_at = choices.word(3) as usize;
    let damage = choices.byte();
    let (mut file, written) = recording::file(recording::records(&mut choices));

    let (read, recovery) = read(&file, false).expect("an undamaged file is read");
    assert_eq!(read, written);
    assert!(recovery.is_complete());

    let damage_at = damage_at % file.len();
    check_cut(&file[..damage_at], &written);
    file[damage_at] ^= damage;
    if damage != 0 {
        check_changed(&file, &written);
    }
});

/// A file that was cut off is read to its last whole chunk, or its header is not.
fn check_cut(file: &[u8], written: &[Record]) {
    match read(file, false) {
        Ok((read, recovery)) => {
            assert!(written.starts_with(&read));
            assert!(!recovery.is_complete());
        }
        Err(error) => assert!(matches!(error, ReadError::Header(_)), "{error}"),
    }
}

/// A changed byte is found everywhere but in the index, which a stream does not need.
fn check_changed(file: &[u8], written: &[Record]) {
    let Ok((found, recovery)) = read(file, true) else {
        return;
    };
    if found.len() == written.len() {
        assert_eq!(found, written);
    } else {
        assert!(!recovery.is_complete());
        assert!(found.len() < written.len());
    }
}

fn read(file: &[u8], does_resync: bool) -> Result<(Vec<Record>, Recovery), ReadError> {
    let mut reader = TraceReader::new(file)?;
    if does_resync {
        reader = reader.resync();
    }
    let mut collect = Collect::default();
    let recovery = reader.visit(&mut collect)?;
    Ok((collect.0, recovery))
}

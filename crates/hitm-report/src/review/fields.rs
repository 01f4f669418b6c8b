//! The quantities of `hitm review`.

use hitm_advise::review::{
    Coverage, MachineCost, MemberReview, Rename, Review, TypeReview, Unmatched, Worse,
};
use hitm_fields::fields;
use hitm_whatif::{Change, Took};

use super::{alike_words, growth, rename_words, unmatched_words, words};

fn lost(cost: &MachineCost, side: fn(&Change<Took>) -> Took) -> Option<u64> {
    cost.replay.as_ref().map(|replay| side(replay).lost.0)
}

/// `member (accesses)` of each.
fn lacking(members: &[(String, u64)]) -> Vec<String> {
    let members = members.iter();
    members
        .map(|(name, count)| format!("{name} ({count})"))
        .collect()
}

fields! {
    /// A review.
    pub review for Review {
        /// Name of the first build.
        before => label "before", |item| item.builds[0];
        /// Name of the second build.
        after => label "after", |item| item.builds[1];
        /// Name of the profile; null without one.
        profile => known label "profile", |item| item.profile.as_deref().unwrap_or_default();
        /// Types that both builds have.
        compared_count => count "compared";
        /// The part of them whose layouts differ.
        changed_count => count "changed", |item| (item.types.len() + item.left_out.len());
        /// Types that only the first build has.
        only_before_count => count "only before", |item| item.only_counts[0];
        /// Types that only the second build has.
        only_after_count => count "only after", |item| item.only_counts[1];
        /// Names of changed types beyond the 16 that a review without --type shows.
        left_out => words "left out";
    }
}

fields! {
    /// A changed type.
    pub review_type for TypeReview {
        /// Name of the type.
        r#type => label "type", |item| item.name;
        /// Bytes of an instance before.
        size_before_bytes => bytes "bytes before", |item| item.memory[0].size_bytes;
        /// Bytes of an instance after.
        size_after_bytes => bytes "bytes after", |item| item.memory[1].size_bytes;
        /// Cache lines of an instance before.
        line_count_before => count "lines before", |item| item.memory[0].line_count;
        /// Cache lines of an instance after.
        line_count_after => count "lines after", |item| item.memory[1].line_count;
        /// Holes between members before.
        hole_count_before => count "holes before", |item| item.memory[0].hole_count;
        /// Holes between members after.
        hole_count_after => count "holes after", |item| item.memory[1].hole_count;
        /// Bytes in holes before.
        hole_before_bytes => bytes "bytes in holes before", |item| item.memory[0].hole_bytes;
        /// Bytes in holes after.
        hole_after_bytes => bytes "bytes in holes after", |item| item.memory[1].hole_bytes;
        /// Bytes behind the last member before.
        padding_before_bytes => bytes "padding before", |item| item.memory[0].padding_bytes;
        /// Bytes behind the last member after.
        padding_after_bytes => bytes "padding after", |item| item.memory[1].padding_bytes;
        /// Reason for which there are no costs; null when there are.
        unpriced => known label "no costs because", |item| item.unpriced.as_deref().unwrap_or_default();
    }
}

fields! {
    /// Both layouts of a type on one machine.
    pub review_cost for MachineCost {
        /// Name of the machine.
        machine => name "machine";
        /// CPUs of the machine.
        cpu_count => count "CPUs";
        /// CPUs of the profile that take turns on those of a smaller machine; null when it has enough.
        folded_cpu_count => count "folded CPUs";
        /// Cycles of all threads before, by a replay; the cost of the type's lines where it is estimated.
        cycles_before => cycles "before", |item| item.cycles()[0].round();
        /// The same after.
        cycles_after => cycles "after", |item| item.cycles()[1].round();
        /// Growth of the cycles; negative when they fall.
        cycles_change => share "change", |item| {
            let [before, after] = item.cycles();
            growth(before, after)
        };
        /// Cycles that threads lost to each other before, by a replay; null where it is estimated.
        lost_cycles_before => cycles "lost before", |item| lost(item, |replay| replay.before);
        /// The same after.
        lost_cycles_after => cycles "lost after", |item| lost(item, |replay| replay.after);
        /// Cycles that cores stand still for transfers before, as the model estimates.
        stall_cycles_before => cycles "stall before", |item| item.weighed[0].cost.stall.round();
        /// The same after.
        stall_cycles_after => cycles "stall after", |item| item.weighed[1].cost.stall.round();
        /// Transfers between cores before, as the model estimates.
        transfer_count_before => count "transfers before", |item| item.weighed[0].cost.transfers.round();
        /// The same after.
        transfer_count_after => count "transfers after", |item| item.weighed[1].cost.transfers.round();
        /// replayed when the recording was run again on this machine with both layouts, else estimated by the model.
        confidence => label "confidence", |item| match item.replay {
            Some(_) => "replayed",
            None => "estimated",
        };
    }
}

fields! {
    /// A member before and after.
    pub review_member for MemberReview {
        /// Name of the member.
        member => name "member", |item| item.places.name;
        /// same, moved (within its lines), moved-line, added or removed.
        change => label "change", |item| match item.places.change {
            hitm_layout::structs::Change::Same => "same",
            hitm_layout::structs::Change::Moved => "moved",
            hitm_layout::structs::Change::MovedLine => "moved-line",
            hitm_layout::structs::Change::Added => "added",
            hitm_layout::structs::Change::Removed => "removed",
        };
        /// First byte before; null for an added member.
        offset_before_bytes => bytes "offset before",
            |item| item.places.before.as_ref().map(|place| place.offset_bytes);
        /// First byte after; null for a removed member.
        offset_after_bytes => bytes "offset after",
            |item| item.places.after.as_ref().map(|place| place.offset_bytes);
        /// Bytes before.
        size_before_bytes => bytes "size before",
            |item| item.places.before.as_ref().map(|place| place.size_bytes);
        /// Bytes after.
        size_after_bytes => bytes "size after",
            |item| item.places.after.as_ref().map(|place| place.size_bytes);
        /// Cache line that it began in before, from 0.
        line_before => number "line before",
            |item| item.places.before.as_ref().map(|place| place.first_line);
        /// Cache line that it begins in after, from 0.
        line_after => number "line after",
            |item| item.places.after.as_ref().map(|place| place.first_line);
        /// Accesses in the profile, 0 for a member that it does not know; null when it does not know the type.
        access_count => count "accesses";
    }
}

fields! {
    /// A touched member without a place in the second build.
    pub review_unmatched for Unmatched {
        /// Name of the member in the first build.
        member => label "member";
        /// Accesses in the profile.
        access_count => count "accesses";
        /// First byte in the first build, of the structure that it is a member of.
        offset_bytes => bytes "offset", |item| item.place.offset_bytes;
        /// Bytes in the first build.
        size_bytes => bytes "size", |item| item.place.size_bytes;
        /// Name of its type; null in a layout file.
        member_type => known label "type", |item| item.place.type_name;
        /// Members of the second build without a partner, the likest first: name, place, what is the same.
        candidates => words "may be", |item| item.candidates.iter().map(alike_words).collect::<Vec<String>>();
        /// The same as a sentence without a full stop.
        words => label "in words", |item| unmatched_words(item);
    }
}

fields! {
    /// A member that has another name in the second build.
    pub review_rename for Rename {
        /// Name of the member in the first build.
        member => label "member", |item| item.old;
        /// Its name in the second build; null when it is gone.
        new_member => known label "new name", |item| item.new.as_deref().unwrap_or_default();
        /// stated by --renamed, or place: the same offset, size, type and neighbours.
        evidence => label "evidence", |item| if item.is_stated { "stated" } else { "place" };
        /// The same as a sentence without a full stop.
        words => label "in words", |item| rename_words(item);
    }
}

fields! {
    /// Coverage of a type by a profile.
    pub review_coverage for Coverage {
        /// recorded or simulated (each one), sampled, or stated by a table.
        counted => label "accesses are", |item| item.counted.name();
        /// Origin of the counts.
        source => known label "source";
        /// Accesses to the type.
        access_count => count "accesses";
        /// Functions that make them.
        function_count => count "functions";
        /// CPUs that make them.
        cpu_count => count "CPUs";
        /// Members of the new layout that the profile does not know: they cost nothing wherever they are.
        unknown_members => words "members not in the profile";
        /// Members of the profile that the old layout lacks, with accesses that its cost lacks too.
        lacking_before => label "not in the old layout", |item| lacking(&item.lacking[0]);
        /// Members of the profile that the new layout lacks, with accesses that its cost lacks too.
        lacking_after => label "not in the new layout", |item| lacking(&item.lacking[1]);
        /// Other limits of the figures, one sentence each.
        notes => words "notes";
    }
}

fields! {
    /// Something that gets worse.
    pub review_worse for Worse {
        /// machine, line, member, memory or straddle.
        kind => label "kind", |item| item.kind.name();
        /// The machine, the number of the line, the member or the type.
        name => label "name";
        /// Machines on which cost rises, the one with the largest rise first.
        machines => words "machines";
        /// Cycles on the first machine; bytes for memory; lines of a member that straddles.
        before => count "before";
        /// The same after the change.
        after => count "after";
        /// The same as a sentence without a full stop.
        words => label "in words", |item| words(item);
    }
}

//! Advice on the layout of a structure, in words.

use super::sentences;

sentences! {
    /// Two members that cost more in one line than apart.
    gets_away(member, other, habits, cycles) = "{member} gets away from {other}: {habits}; in one line they cost an \
                                                estimated {cycles} cycles more than apart";
    /// Two members that cost more apart.
    joins(member, other, habits, cycles) = "{member} joins {other}: {habits}; apart they cost an estimated {cycles} \
                                            cycles more";
    /// A member that has to be somewhere.
    joins_for_least(member, other, habits) = "{member} joins {other}: {habits}; of all company it costs least";
    /// A member that does not mind where it is.
    leaves(member, other, habits) = "{member} leaves {other}: {habits}";
    /// Members whose reasons were not searched.
    not_searched() = "the limit of the search leaves their reasons out";
    /// Members that nothing touches.
    untouched() = "nothing in the profile touches them: they fill what the others leave";
    /// Habits of two members.
    both(habits, other_habits) = "{habits}, and {other_habits}";
    /// A member that is written and read.
    is_used(member, writes, writers, reads, readers) = "{member} is written {writes} times by {writers} and read \
                                                        {reads} times by {readers}";
    /// A member that is written.
    is_written(member, writes, writers) = "{member} is written {writes} times by {writers}";
    /// A member that is read.
    is_read(member, reads, readers) = "{member} is only read, {reads} times by {readers}";

    /// Layout by writers.
    by_writers() = "members by who writes them";
    /// Layout with a line for each written member.
    apart() = "each written member on a line of its own";
    /// The present order, with gaps.
    padded() = "in the present order, aligned and padded to lines";
    /// Layout with one member alone.
    alone(member) = "{member} on a line of its own";
    /// Layout that the model found.
    searched() = "by the model's search";

    /// Result of a run.
    took(cycles, lost) = "threads take {cycles} cycles and lose {lost} of them to each other";
    /// Results of a run and its replay.
    took_instead(saved, cycles, cycles_before, lost, lost_before) = "{saved} by replay: threads take {cycles} cycles \
        instead of {cycles_before}, and lose {lost} of them to each other instead of {lost_before}";
    /// A part that is saved.
    less(share) = "{share} less";
    /// A part that is lost.
    more(share) = "{share} more";
    /// A layout that was not replayed.
    not_replayed(why) = "not replayed: {why}";
    /// Layouts that were not replayed.
    estimated() = "estimated by a model of independent accesses; docs/models/advisor.md says how far off it is";
    /// Layouts that were.
    replayed(layouts, no_better, left_out) = "{layouts} replayed{no_better}{left_out}";
    /// Some of them that are not shown.
    no_better(count) = ", {count} no better than now";
    /// Others that were not tried.
    left_out(count) = "; {count} more were left out (--candidates)";
    /// A search that may have missed the best.
    not_exact(members, steps, ended, exact) = "{members} members are touched: the layouts are the best found in \
        {steps} steps{ended}, not proven the best; only the {exact} most used were tried in every combination";
    /// A search that was cut short.
    search_ends() = ", where the search ends";
    /// A layout that is the best of its size.
    is_best() = "; none with as many hot lines is cheaper";
    /// A layout that may not be.
    gap(found, share) = "; {found}an estimated {share} above the best possible at most";
    /// A layout that may not even be the best of those tried.
    best_found() = "the best found, ";
    /// No layout was better in a replay.
    none_replayed(tried) = "No layout is better by a thousandth: {tried} replayed.";
    /// No layout was better by the model.
    none_estimated() = "No layout is better by a thousandth, as the model estimates.";
    /// A layout beside the present one, after a replay.
    difference(lines, lines_before, proof) = "{lines} instead of {lines_before}, {proof}.";
    /// A layout beside the present one, by the model.
    difference_estimated(lines, lines_before, cycles, cycles_before, saved) = "{lines} instead of {lines_before}, an \
        estimated {cycles} cycles instead of {cycles_before}: {saved}.";
}

"""The fold of one external source's reports in one contest, by the source's own participant ids."""

from dataclasses import dataclass, field

from libs.tally.counts import VoteSums
from libs.tally.events import SourceReported


@dataclass(frozen=True, slots=True)
class FoldedReport:
    """One folded report id. `held` are the ids whose counts decreased and were not applied."""

    content: str
    offset: int
    late: bool
    held: tuple[str, ...] = ()


@dataclass(slots=True)
class SourceTally:
    """Counts of one source by its participant ids: `figures` are in force, `held` are decreases not yet permitted.

    A report with `allow_decrease` permits the decreases in it and all held ones. A delta is added to both.
    """

    figures: dict[str, VoteSums] = field(default_factory=dict)
    held: dict[str, VoteSums] = field(default_factory=dict)
    reports: dict[str, FoldedReport] = field(default_factory=dict)
    closed: int = 0
    updated_ms: int = 0

    def take(self, event: SourceReported, offset: int, time_ms: int) -> bool:
        """Fold a report; False for a duplicate."""
        if event.report_id in self.reports:
            return False
        if self.closed:
            self.reports[event.report_id] = FoldedReport(event.content, offset, late=True)
            return True
        if event.allow_decrease:
            self.figures |= self.held
            self.held.clear()
        held = []
        for mapped_id, *numbers in event.counts:
            figures = VoteSums(*numbers)
            known = self.figures.get(mapped_id)
            if event.mode == "delta":
                self.figures[mapped_id] = figures if known is None else known + figures
                if mapped_id in self.held:
                    self.held[mapped_id] += figures
            elif known is not None and figures.count < known.count and not event.allow_decrease:
                self.held[mapped_id] = figures
                held.append(mapped_id)
            else:
                self.figures[mapped_id] = figures
                self.held.pop(mapped_id, None)
        self.reports[event.report_id] = FoldedReport(event.content, offset, late=False, held=tuple(held))
        self.updated_ms = max(self.updated_ms, time_ms)
        return True

"""One page that tells of a recovery: `write_report`."""

from provenet.report.build import check_report, write_report
from provenet.report.gathering import ReportData, gather

__all__ = ["ReportData", "check_report", "gather", "write_report"]

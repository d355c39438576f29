"""scikit-learn estimators: the only importer of `sklearn.base`."""

from provenet.estimators.classifier import HalfspaceClassifier
from provenet.estimators.network_classifier import NetworkClassifier
from provenet.estimators.regressor import NetworkRegressor

__all__ = ["HalfspaceClassifier", "NetworkClassifier", "NetworkRegressor"]

"""First on PYTHONPATH of programs that import Lightning themselves: it imports torchvision, whose wheel here may lack operators."""

from importlib.util import find_spec

if find_spec("torchvision"):
    from gar.vision.torchvision_import import import_torchvision

    import_torchvision()

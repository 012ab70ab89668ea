"""Adds p4.tmp.p4config_pb2 to the package p4runtime of PyPI, which lacks it. p4lang's tutorials wrap programs in its message.

Python imports this file by itself where its directory is in PYTHONPATH.
"""
import sys
import types


def _add():
    try:
        import p4
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        return
    try:
        import p4.tmp.p4config_pb2  # noqa: F401: p4lang's own installation has it.
        return
    except ImportError:
        pass
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
    message = file.message_type.add(name="P4DeviceConfig")
    field = descriptor_pb2.FieldDescriptorProto
    for name, number, kind in [("reassign", 1, field.TYPE_BOOL), ("device_data", 3, field.TYPE_BYTES)]:
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.Default()
    pool.Add(file)
    found = pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
    made = getattr(message_factory, "GetMessageClass", None)
    kind = made(found) if made else message_factory.MessageFactory(pool).GetPrototype(found)
    tmp, config = types.ModuleType("p4.tmp"), types.ModuleType("p4.tmp.p4config_pb2")
    tmp.__path__ = []
    config.P4DeviceConfig = kind
    tmp.p4config_pb2 = config
    p4.tmp = tmp
    sys.modules["p4.tmp"], sys.modules["p4.tmp.p4config_pb2"] = tmp, config


_add()

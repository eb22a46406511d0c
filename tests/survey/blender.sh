#!/bin/bash
# blender without a display: its python makes meshes, a modifier is applied, and the result is written.
# needs: blender
# limit: 300
# varies: times
# setup
cat > a.py <<'END'
import bpy, os
bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.ops.mesh.primitive_monkey_add()
o = bpy.context.object
o.modifiers.new("s", "SUBSURF").levels = 2
bpy.ops.object.modifier_apply(modifier="s")
print("vertices", len(o.data.vertices))
bpy.ops.wm.save_as_mainfile(filepath=os.path.abspath("a.blend"))
END
# record
export HOME=$PWD; exec blender -b --factory-startup -noaudio --python a.py
# check
grep -q '^vertices 7958' "$OUT" && test -s a.blend

//! Work in a folder with the rights of the folder's owner.
//!
//! Root may collect for others, as in the epilog of a batch system. Whatever is in a user's folder is then
//! looked at and changed with this user's rights. So new files belong to the user, and no link or name that
//! the user prepared makes root read, write or remove anything that the user could not.

use anyhow::Context;
use nix::unistd::{getegid, geteuid, getgroups, setegid, seteuid, setgroups, Gid, Uid, User};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Root's own identity, which comes back when this is dropped.
struct Root {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Drop for Root {
    fn drop(&mut self) {
        // Root's saved user id permits all of these. Without them, the rest has fewer rights, and says so.
        let _ = seteuid(self.uid);
        let _ = setegid(self.gid);
        let _ = setgroups(&self.groups);
    }
}

/// Does `work` with the rights of the owner of `folder`, if this is root and the folder is another user's.
///
/// # Errors
/// When the folder can't be looked at, or its owner's rights can't be taken.
pub fn as_owner<T>(folder: &Path, work: impl FnOnce() -> T) -> anyhow::Result<T> {
    let found = std::fs::metadata(folder).with_context(|| format!("`{}`", folder.display()))?;
    let (uid, mut gid) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
    if !geteuid().is_root() || uid.is_root() {
        return Ok(work());
    }
    if let Ok(Some(user)) = User::from_uid(uid) {
        gid = user.gid;
    }
    let root = Root {
        uid: geteuid(),
        gid: getegid(),
        groups: getgroups().unwrap_or_default(),
    };
    setgroups(&[gid])
        .and_then(|()| setegid(gid))
        .and_then(|()| seteuid(uid))
        .with_context(|| {
            format!(
                "`{}` belongs to user {uid}, whose rights can't be taken here\n  hint: run this command as \
                 that user",
                folder.display()
            )
        })?;
    let done = work();
    drop(root);
    Ok(done)
}

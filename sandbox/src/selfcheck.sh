# What a job that wants out tries first, with what every Linux has in /usr: facts for selfcheck.rs to judge, then one line
# for each attack that worked or could not be tried. $1: a directory of the host. $2: a process of the host. $3: a TCP port
# on the host's loopback. $4: the processes that the box may have. $5: more MiB than it may have.
worked() { echo "worked $*"; }
there_is() { command -v "$1" > /dev/null 2>&1 || { echo "untried $2 there is no $1 in the box"; return 1; }; }

for file in self/status self/mountinfo net/dev net/route net/unix; do
    echo "== $file"
    cat "/proc/$file" || exit 3
done
for kind in user mnt pid net ipc uts cgroup; do
    echo "== ns/$kind"
    readlink "/proc/self/ns/$kind" || echo
done
echo "== attacks"

for at in / /usr /etc /dev /run /home /proc/sys/kernel "$1"; do
    if true 2> /dev/null > "$at/.cloister-attack"; then worked write-outside "a file in $at"; fi
done
for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper /etc/passwd /usr/bin/env; do
    if true 2> /dev/null >> "$file"; then worked write-outside "opening $file for writing"; fi
    if chmod 0777 "$file" 2> /dev/null; then worked write-outside "the mode of $file"; fi
done
if chmod 0666 /dev/null 2> /dev/null; then worked write-outside "the mode of /dev/null"; fi
if test -e "$1"; then worked write-outside "seeing $1"; fi

if there_is chroot gain-privilege && chroot / true 2> /dev/null; then worked gain-privilege chroot; fi
if mknod /tmp/device b 7 0 2> /dev/null; then worked gain-privilege "a block device"; fi

if there_is bash reach-network && bash -c "exec 3<> /dev/tcp/127.0.0.1/$3" 2> /dev/null; then
    worked reach-network "the host's port $3"
fi

for socket in /run/docker.sock /var/run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock \
    /run/systemd/journal/socket /run/systemd/private /run/dbus/system_bus_socket /dev/log; do
    if test -e "$socket"; then worked reach-host-socket "$socket"; fi
done

if there_is mount remount; then
    for at in / /usr /proc/sys /dev; do
        if mount -o remount,bind,rw "$at" 2> /dev/null; then worked remount "$at"; fi
    done
    if mount -t tmpfs none /tmp 2> /dev/null; then worked remount "a new tmpfs"; fi
    if mount -t proc none /proc 2> /dev/null; then worked remount "a new /proc"; fi
fi
if there_is umount remount && umount -l /proc/kcore 2> /dev/null; then worked remount "unmasking /proc/kcore"; fi

if there_is unshare nest-namespace; then
    for kind in U m n p u i C; do
        if unshare -$kind true 2> /dev/null; then worked nest-namespace "unshare -$kind"; fi
    done
fi
if command -v nsenter > /dev/null 2>&1 && nsenter -t 1 -m true 2> /dev/null; then worked nest-namespace nsenter; fi

# A small number may be one of the box's own.
if test "$2" -gt 1000 && kill -0 "$2" 2> /dev/null; then worked kill-host-process "a signal to process $2"; fi

if there_is dd exceed-memory && dd if=/dev/zero of=/dev/null bs="$5M" count=1 2> /dev/null; then
    worked exceed-memory "a buffer of $5 MiB"
fi

true > .cloister-selfcheck && rm .cloister-selfcheck || exit 4

# Last, because no more process can be started after it. A shell that waits for a free process (bash) lets xargs do it.
: > /tmp/started
if test -z "$BASH_VERSION" && mkfifo /tmp/never; then
    # Opening a FIFO that nobody writes to waits, and no program has to be started for it.
    (i=0; while test $i -lt "$4"; do true < /tmp/never > /dev/null & echo >> /tmp/started; i=$((i + 1)); done) 2> /dev/null
elif there_is xargs exceed-pids; then
    seq "$4" | timeout 1 xargs -P "$4" -n 1 sh -c 'echo >> /tmp/started; exec sleep 2' 2> /dev/null
fi
n=0
while read -r _; do n=$((n + 1)); done < /tmp/started
if test $n -ge "$4"; then worked exceed-pids "$n processes at one time"; fi
echo "== done"
